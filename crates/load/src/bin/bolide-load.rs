//! `bolide-load [options] URL`: the generator as a separate program, for the benches. Prints the report as one JSON object.
//!
//! The URL is `http://ADDRESS:PORT/target` (the address in digits) or `unix:/path/of/socket` with `--target`.

use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use load::generator::{self, Address, Limit, Plan, Request, Shape};

const USAGE: &str = "usage: bolide-load [-c CONNECTIONS] [-p PIPELINE_DEPTH] [-d SECONDS | -n REQUESTS] [--warm-up SECONDS] \
[--timeout SECONDS] [--rate REQUESTS_PER_S] [--threads N] [--close] [--sleepless] [--sources N] [-X METHOD] [-H 'Name: value']... \
[--content BYTES] [--host HOST] [--target TARGET] [--status CODE] [--length BYTES] [--same] URL";

fn main() -> ExitCode {
    let report = match arguments() {
        Ok(plan) => generator::run(&plan).map_err(|error| error.to_string()),
        Err(message) => Err(message),
    };
    match report {
        Ok(report) => match writeln!(io::stdout(), "{}", report.to_json()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        },
        Err(message) => {
            let _ = writeln!(io::stderr(), "bolide-load: {message}");
            ExitCode::from(2)
        }
    }
}

fn arguments() -> Result<Plan, String> {
    let mut plan = Plan::default();
    let mut request = Request::default();
    request.expected.status = Some(200);
    let mut url = None;
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        if word == "-h" || word == "--help" {
            return Err(USAGE.into());
        } else if word == "--close" {
            plan.is_persistent = false;
        } else if word == "--sleepless" {
            plan.is_sleepless = true;
        } else if word == "--same" {
            request.expected.is_template = true;
        } else if word.starts_with('-') {
            let value = words.next().ok_or(format!("{word} needs a value"))?;
            if !set(&mut plan, &word, &value)? {
                set_request(&mut request, &word, &value)?;
            }
        } else {
            url = Some(word);
        }
    }
    locate(&mut plan, &mut request, &url.ok_or(USAGE)?)?;
    plan.requests = vec![request];
    Ok(plan)
}

/// Returns false if the option belongs to the request.
fn set(plan: &mut Plan, name: &str, value: &str) -> Result<bool, String> {
    match name {
        "-c" => plan.connections = number(name, value)?,
        "-p" => plan.pipeline_depth = number(name, value)?,
        "-d" => plan.limit = Limit::Duration(seconds(name, value)?),
        "-n" => plan.limit = Limit::Requests(number(name, value)?),
        "--warm-up" => plan.warm_up = seconds(name, value)?,
        "--timeout" => plan.timeout = seconds(name, value)?,
        "--rate" => plan.shape = Shape::Rate(number(name, value)?),
        "--threads" => plan.threads = number(name, value)?,
        "--sources" => {
            let loopback = |last| IpAddr::from(Ipv4Addr::new(127, 0, 0, last));
            plan.source_addresses = (1..=number::<u8>(name, value)?).map(loopback).collect();
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn set_request(request: &mut Request, name: &str, value: &str) -> Result<(), String> {
    match name {
        "-X" => value.clone_into(&mut request.method),
        "-H" => {
            let (field, content) = value.split_once(':').ok_or(format!("{value}: no colon"))?;
            let line = (field.to_owned(), content.trim().to_owned());
            request.field_lines.push(line);
        }
        "--content" => request.content = Some(vec![b'x'; number(name, value)?]),
        "--host" => value.clone_into(&mut request.host),
        "--target" => value.clone_into(&mut request.target),
        "--status" => request.expected.status = Some(number(name, value)?),
        "--length" => request.expected.length = Some(number(name, value)?),
        _ => return Err(format!("unknown option {name}\n{USAGE}")),
    }
    Ok(())
}

fn locate(plan: &mut Plan, request: &mut Request, url: &str) -> Result<(), String> {
    if let Some(path) = url.strip_prefix("unix:") {
        plan.address = Address::Local(PathBuf::from(path));
        return Ok(());
    }
    let rest = url
        .strip_prefix("http://")
        .ok_or(format!("{url}: neither http:// nor unix:"))?;
    let path = rest.find('/').unwrap_or(rest.len());
    let (address, target) = rest.split_at(path);
    plan.address = Address::Internet(number("address", address)?);
    if !target.is_empty() {
        target.clone_into(&mut request.target);
    }
    Ok(())
}

fn number<T: FromStr>(name: &str, value: &str) -> Result<T, String> {
    value
        .parse()
        .map_err(|_| format!("{name}: {value} does not fit"))
}

fn seconds(name: &str, value: &str) -> Result<Duration, String> {
    Duration::try_from_secs_f64(number(name, value)?)
        .map_err(|_| format!("{name}: {value} does not fit"))
}
