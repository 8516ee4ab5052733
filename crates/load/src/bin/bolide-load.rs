//! `bolide-load [options] URL`: the generator as a program of its own, for the benches. Prints the report as one JSON object.
//!
//! The URL is `http://ADDRESS:PORT/target` (the address in digits) or `unix:/path/of/socket` with `--target`.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use load::generator::{self, Address, Limit, Options};

const USAGE: &str = "usage: bolide-load [-c CONNECTIONS] [-p PIPELINE_DEPTH] [-d SECONDS | -n REQUESTS] [--warm-up SECONDS] \
[--timeout SECONDS] [--close] [--sleepless] [--sources N] [-X METHOD] [-H 'Name: value']... [--content BYTES] [--host HOST] [--target TARGET] \
[--status CODE] [--length BYTES] URL";

fn main() -> ExitCode {
    let report = match arguments() {
        Ok(options) => generator::run(&options).map_err(|error| error.to_string()),
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

fn arguments() -> Result<Options, String> {
    let mut options = Options::default();
    let mut url = None;
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        if word == "-h" || word == "--help" {
            return Err(USAGE.into());
        } else if word == "--close" {
            options.is_persistent = false;
        } else if word == "--sleepless" {
            options.is_sleepless = true;
        } else if word.starts_with('-') {
            let value = words.next().ok_or(format!("{word} needs a value"))?;
            set(&mut options, &word, &value)?;
        } else {
            url = Some(word);
        }
    }
    locate(&mut options, &url.ok_or(USAGE)?)?;
    Ok(options)
}

fn set(options: &mut Options, name: &str, value: &str) -> Result<(), String> {
    match name {
        "-c" => options.connections = number(name, value)?,
        "-p" => options.pipeline_depth = number(name, value)?,
        "-d" => options.limit = Limit::Duration(seconds(name, value)?),
        "-n" => options.limit = Limit::Requests(number(name, value)?),
        "--warm-up" => options.warm_up = seconds(name, value)?,
        "--timeout" => options.timeout = seconds(name, value)?,
        "--sources" => options.source_addresses = number(name, value)?,
        "-X" => value.clone_into(&mut options.method),
        "-H" => {
            let (field, content) = value.split_once(':').ok_or(format!("{value}: no colon"))?;
            options
                .field_lines
                .push((field.to_owned(), content.trim().to_owned()));
        }
        "--content" => options.content_bytes = Some(number(name, value)?),
        "--host" => value.clone_into(&mut options.host),
        "--target" => value.clone_into(&mut options.target),
        "--status" => options.expected_status = number(name, value)?,
        "--length" => options.expected_length = Some(number(name, value)?),
        _ => return Err(format!("unknown option {name}\n{USAGE}")),
    }
    Ok(())
}

fn locate(options: &mut Options, url: &str) -> Result<(), String> {
    if let Some(path) = url.strip_prefix("unix:") {
        options.address = Address::Local(PathBuf::from(path));
        return Ok(());
    }
    let rest = url
        .strip_prefix("http://")
        .ok_or(format!("{url}: neither http:// nor unix:"))?;
    let path = rest.find('/').unwrap_or(rest.len());
    let (address, target) = rest.split_at(path);
    options.address = Address::Internet(number("address", address)?);
    if !target.is_empty() {
        target.clone_into(&mut options.target);
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
