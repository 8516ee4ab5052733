//! `bolide-ceiling [--port N] [--size BYTES] [--seconds S]`: the ceiling as a separate program.
//!
//! Prints `listening on http://ADDRESS` when it is ready and `responses COUNT` when it ends: after `--seconds`, or when its standard input
//! ends if `--until-eof` is given.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use load::ceiling::Ceiling;

static STOP: AtomicBool = AtomicBool::new(false);

struct Arguments {
    port: u16,
    size: usize,
    seconds: Option<f64>,
    until_eof: bool,
}

fn main() -> ExitCode {
    match arguments().map(|arguments| run(&arguments)) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => usage_error(&error.to_string()),
        Err(message) => usage_error(&message),
    }
}

fn run(arguments: &Arguments) -> io::Result<()> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, arguments.port));
    let mut ceiling = Ceiling::bind(address, arguments.size)?;
    writeln!(io::stdout(), "listening on http://{}", ceiling.address())?;
    io::stdout().flush()?;
    if arguments.until_eof {
        thread::spawn(|| {
            let _ = io::stdin().read_to_end(&mut Vec::new());
            STOP.store(true, Ordering::Relaxed);
        });
    }
    let count = ceiling.run(arguments.seconds, &STOP)?;
    writeln!(io::stdout(), "responses {count}")
}

fn arguments() -> Result<Arguments, String> {
    let mut found = Arguments {
        port: 0,
        size: 13,
        seconds: None,
        until_eof: false,
    };
    let mut words = std::env::args().skip(1);
    while let Some(name) = words.next() {
        if name == "--until-eof" {
            found.until_eof = true;
            continue;
        }
        let value = words.next().ok_or(format!("{name} needs a value"))?;
        let bad = |_| format!("{name}: {value} is not a number that fits");
        match name.as_str() {
            "--port" => found.port = value.parse().map_err(|_| bad(()))?,
            "--size" => found.size = value.parse().map_err(|_| bad(()))?,
            "--seconds" => found.seconds = Some(value.parse().map_err(|_| bad(()))?),
            _ => return Err(format!("unknown option {name}")),
        }
    }
    Ok(found)
}

fn usage_error(message: &str) -> ExitCode {
    let _ = writeln!(io::stderr(), "bolide-ceiling: {message}");
    ExitCode::from(2)
}
