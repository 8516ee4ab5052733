//! Converts a dict into a plan. Every error is one line that names the key.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use ::load::generator::{
    Address, Expectation, Limit, Part, Pattern, Plan, Protocol, Request, Shape, Stage, Tls,
    WebSocket,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

const TLS12: &str = "1.2";
const TLS13: &str = "1.3";

/// The keys that exclude each other.
#[derive(Default)]
struct Shapes {
    duration: Option<Duration>,
    requests_total: Option<u64>,
    rate_per_s: Option<f64>,
    stages: Option<Vec<Stage>>,
    has_rates: bool,
}

/// The keys that make a protocol.
struct Versions {
    http_version: String,
    pipeline_depth: u32,
    streams: u32,
    websocket: Option<WebSocket>,
}

/// Reads a whole plan.
///
/// # Errors
/// `ValueError` for an unknown key or an invalid value.
pub(super) fn read(given: &Bound<'_, PyDict>) -> PyResult<Plan> {
    let mut plan = Plan::default();
    let mut shapes = Shapes::default();
    let mut versions = Versions {
        http_version: String::from("1.1"),
        pipeline_depth: 1,
        streams: 1,
        websocket: None,
    };
    for needed in ["address", "requests"] {
        if !given.contains(needed)? {
            return Err(refusal(needed, "a plan needs it"));
        }
    }
    for (key, value) in given {
        let key: String = key.extract()?;
        if value.is_none() || set_shape(&mut shapes, &key, &value)? {
            continue;
        }
        match key.as_str() {
            "http_version" => versions.http_version = get(&key, &value)?,
            "pipeline_depth" => versions.pipeline_depth = get(&key, &value)?,
            "streams" => versions.streams = get(&key, &value)?,
            "websocket" => versions.websocket = Some(websocket(&get(&key, &value)?)?),
            _ => set(&mut plan, &key, &value)?,
        }
    }
    shape(&mut plan, shapes)?;
    plan.protocol = protocol(&versions)?;
    Ok(plan)
}

fn protocol(given: &Versions) -> PyResult<Protocol> {
    let (pipeline_depth, streams) = (given.pipeline_depth, given.streams);
    if let Some(websocket) = given.websocket {
        let is_default = given.http_version == "1.1" && pipeline_depth == 1 && streams == 1;
        return match is_default {
            true => Ok(Protocol::WebSocket(websocket)),
            false => Err(refusal(
                "websocket",
                "its handshake is HTTP/1.1, its depth is its own",
            )),
        };
    }
    match given.http_version.as_str() {
        "2" if pipeline_depth == 1 => Ok(Protocol::Http2 { streams }),
        "2" => Err(refusal("pipeline_depth", "HTTP/2 has streams instead")),
        _ if streams != 1 => Err(refusal("streams", "only HTTP/2 has them")),
        "1.1" => Ok(Protocol::Http11 { pipeline_depth }),
        "1.0" if pipeline_depth == 1 => Ok(Protocol::Http10),
        "1.0" => Err(refusal("pipeline_depth", "HTTP/1.0 has no pipelining")),
        other => Err(refusal(
            "http_version",
            &format!("{other:?} is not 1.0, 1.1 or 2"),
        )),
    }
}

fn set(plan: &mut Plan, key: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
    match key {
        "address" => plan.address = address(&get::<String>(key, value)?)?,
        "tls" => plan.tls = Some(tls(&get(key, value)?)?),
        "threads" => plan.threads = get(key, value)?,
        "part" => plan.part = Some(part(&get(key, value)?)?),
        "is_gated" => plan.is_gated = get(key, value)?,
        "connections" => plan.connections = get(key, value)?,
        "is_persistent" => plan.is_persistent = get(key, value)?,
        "source_addresses" => plan.source_addresses = sources(key, value)?,
        "cpus" => plan.cpus = get(key, value)?,
        "is_sleepless" => plan.is_sleepless = get(key, value)?,
        "requests" => {
            plan.requests = get::<Vec<Bound<'_, PyDict>>>(key, value)?
                .iter()
                .map(request)
                .collect::<PyResult<_>>()?;
        }
        "ramp_up_s" => plan.ramp_up = duration(key, value)?,
        "warm_up_s" => plan.warm_up = duration(key, value)?,
        "timeout_s" => plan.timeout = duration(key, value)?,
        "deadline_s" => plan.deadline = Some(duration(key, value)?),
        _ => return Err(refusal(key, "a plan has no such key")),
    }
    Ok(())
}

/// Returns false if the key is not one of those that exclude each other.
fn set_shape(shapes: &mut Shapes, key: &str, value: &Bound<'_, PyAny>) -> PyResult<bool> {
    match key {
        "duration_s" => shapes.duration = Some(duration(key, value)?),
        "requests_total" => shapes.requests_total = Some(get(key, value)?),
        "rate_per_s" => shapes.rate_per_s = Some(get(key, value)?),
        "stages" => {
            let given: Vec<Bound<'_, PyDict>> = get(key, value)?;
            shapes.has_rates = match given.first() {
                Some(first) => first.contains("rate_per_s")?,
                None => return Err(refusal(key, "there is none in the list")),
            };
            shapes.stages = Some(stages(&given, shapes.has_rates)?);
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn shape(plan: &mut Plan, shapes: Shapes) -> PyResult<()> {
    plan.limit = match (shapes.duration, shapes.requests_total, &shapes.stages) {
        (Some(duration), None, None) => Limit::Duration(duration),
        (None, Some(total), None) => Limit::Requests(total),
        (None, None, Some(stages)) => Limit::Duration(stages.iter().map(|it| it.duration).sum()),
        _ => {
            let message = "give one of duration_s, requests_total and stages";
            return Err(PyValueError::new_err(message));
        }
    };
    plan.shape = match (shapes.stages, shapes.rate_per_s) {
        (None, None) => Shape::Closed,
        (None, Some(rate)) => Shape::Rate(rate),
        (Some(stages), None) if shapes.has_rates => Shape::Rates(stages),
        (Some(stages), None) => Shape::Connections(stages),
        (Some(_), Some(_)) => {
            let message = "stages have rates of their own; leave out rate_per_s";
            return Err(PyValueError::new_err(message));
        }
    };
    Ok(())
}

/// Reads stages of rates, or of numbers of connections: each starts where the one before ended.
fn stages(given: &[Bound<'_, PyDict>], has_rates: bool) -> PyResult<Vec<Stage>> {
    let (load, start) = match has_rates {
        true => ("rate_per_s", "start_rate_per_s"),
        false => ("connections", "start_connections"),
    };
    let mut found: Vec<Stage> = Vec::new();
    for stage in given {
        let mut length = None;
        let mut to = None;
        let mut from = found.last().map(|it| it.to);
        for (key, value) in stage {
            let key: String = key.extract()?;
            match key.as_str() {
                "duration_s" => length = Some(duration(&key, &value)?),
                _ if key == load => to = Some(get::<f64>(&key, &value)?),
                _ if key == start && found.is_empty() => from = Some(get(&key, &value)?),
                _ => return Err(refusal(&key, "a stage has no such key here")),
            }
        }
        let (Some(duration), Some(to)) = (length, to) else {
            return Err(refusal(
                "stages",
                &format!("each has duration_s and {load}"),
            ));
        };
        let from = from.unwrap_or(to);
        found.push(Stage { duration, from, to });
    }
    Ok(found)
}

fn request(given: &Bound<'_, PyDict>) -> PyResult<Request> {
    let mut request = Request::default();
    let mut expected = Expectation::default();
    for (key, value) in given {
        let key: String = key.extract()?;
        if value.is_none() {
            continue;
        }
        match key.as_str() {
            "method" => request.method = get(&key, &value)?,
            "target" => request.target = get(&key, &value)?,
            "host" => request.host = get(&key, &value)?,
            "field_lines" => request.field_lines = get(&key, &value)?,
            "content" => request.content = Some(get(&key, &value)?),
            "weight" => request.weight = get(&key, &value)?,
            "expected_status" => expected.status = Some(get(&key, &value)?),
            "expected_length" => expected.length = Some(get(&key, &value)?),
            "expected_content" => expected.content = Some(get(&key, &value)?),
            "is_any_length" => expected.is_any_length = get(&key, &value)?,
            "is_template" => expected.is_template = get(&key, &value)?,
            _ => return Err(refusal(&key, "a request has no such key")),
        }
    }
    request.expected = expected;
    Ok(request)
}

fn tls(given: &Bound<'_, PyDict>) -> PyResult<Tls> {
    let mut tls = Tls::default();
    for (key, value) in given {
        let key: String = key.extract()?;
        if value.is_none() {
            continue;
        }
        match key.as_str() {
            "server_name" => tls.server_name = get(&key, &value)?,
            "authorities" => tls.authorities = Some(get(&key, &value)?),
            "pair" => tls.pair = Some(get(&key, &value)?),
            "is_resumed" => tls.is_always_full = !get::<bool>(&key, &value)?,
            "version_min" => tls.is_tls13_only = version(&key, &value)? == TLS13,
            "version_max" => tls.is_tls12_only = version(&key, &value)? == TLS12,
            _ => return Err(refusal(&key, "tls has no such key")),
        }
    }
    Ok(tls)
}

fn part(given: &Bound<'_, PyDict>) -> PyResult<Part> {
    let mut part = Part {
        threads_before: 0,
        threads_all: 0,
    };
    for (key, value) in given {
        let key: String = key.extract()?;
        match key.as_str() {
            "threads_before" => part.threads_before = get(&key, &value)?,
            "threads_all" => part.threads_all = get(&key, &value)?,
            _ => return Err(refusal(&key, "a part has no such key")),
        }
    }
    Ok(part)
}

fn websocket(given: &Bound<'_, PyDict>) -> PyResult<WebSocket> {
    let mut websocket = WebSocket::default();
    for (key, value) in given {
        let key: String = key.extract()?;
        match key.as_str() {
            "depth" => websocket.depth = get(&key, &value)?,
            "pattern" => websocket.pattern = pattern(&key, &value)?,
            "message_bytes" => websocket.message_bytes = get(&key, &value)?,
            "is_binary" => websocket.is_binary = get(&key, &value)?,
            "is_compressed" => websocket.is_compressed = get(&key, &value)?,
            _ => return Err(refusal(&key, "websocket has no such key")),
        }
    }
    Ok(websocket)
}

fn pattern(key: &str, value: &Bound<'_, PyAny>) -> PyResult<Pattern> {
    let given: String = get(key, value)?;
    match given.as_str() {
        "echo" => Ok(Pattern::Echo),
        "one-way" => Ok(Pattern::OneWay),
        "broadcast" => Ok(Pattern::Broadcast),
        _ => Err(refusal(
            key,
            &format!("{given:?} is not echo, one-way or broadcast"),
        )),
    }
}

fn version(key: &str, value: &Bound<'_, PyAny>) -> PyResult<String> {
    let given: String = get(key, value)?;
    match given.as_str() {
        TLS12 | TLS13 => Ok(given),
        _ => Err(refusal(
            key,
            &format!("{given:?} is not {TLS12} or {TLS13}"),
        )),
    }
}

fn address(text: &str) -> PyResult<Address> {
    match text.strip_prefix("unix:") {
        Some(path) => Ok(Address::Local(PathBuf::from(path))),
        None => match text.parse() {
            Ok(address) => Ok(Address::Internet(address)),
            Err(_) => {
                let message = format!("{text:?} is not IP:PORT, [IPV6]:PORT or unix:PATH");
                Err(refusal("address", &message))
            }
        },
    }
}

fn sources(key: &str, value: &Bound<'_, PyAny>) -> PyResult<Vec<IpAddr>> {
    let parse = |text: &String| {
        text.parse()
            .map_err(|_| refusal(key, &format!("{text:?} is not an IP address")))
    };
    get::<Vec<String>>(key, value)?.iter().map(parse).collect()
}

fn duration(key: &str, value: &Bound<'_, PyAny>) -> PyResult<Duration> {
    Duration::try_from_secs_f64(get(key, value)?).map_err(|error| refusal(key, &error.to_string()))
}

fn get<'py, T>(key: &str, value: &Bound<'py, PyAny>) -> PyResult<T>
where
    T: for<'a> FromPyObject<'a, 'py>,
{
    value
        .extract()
        .map_err(|_| refusal(key, &format!("{value} does not fit")))
}

fn refusal(key: &str, message: &str) -> PyErr {
    PyValueError::new_err(format!("{key}: {message}"))
}
