//! A model of a connection's life: random schedules run with a clock that only they advance, and everything that the server does is checked
//! against what it may do.
//!
//! The checks are in `world.rs` (nothing stays open without a reason), `judgement.rs` (each event has a cause), `walk.rs` (responses are
//! those of the application, in order) and `app.rs` (an exchange ends once).
//!
//! `BOLIDE_MODEL_CASES` is the number of schedules of each test, `BOLIDE_MODEL_SEED` their seed. A run of a million:
//! `BOLIDE_MODEL_CASES=1000000 cargo test --release -p bolide-server --test model`.

mod app;
mod bounds;
mod exchange;
mod facts;
mod judgement;
mod moves;
mod panics;
mod peer;
mod render;
mod schedule;
mod shown;
mod strategy;
mod subjects;
#[path = "../harness/tls.rs"]
mod tls;
mod walk;
mod world;

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

pub(crate) use crate::strategy::Profile;

use crate::schedule::Schedule;

/// Schedules of each test.
const CASES: u32 = 300;

/// Schedules tried in order to shrink a failing one.
const SHRINKS_MAX: u32 = 20_000;

/// The weights of most tests.
pub(crate) const PLAIN: Profile = Profile {
    conversations_max: 2,
    requests_max: 4,
    steps_max: 20,
    contents: 1,
    faults: 0,
    narrow: 0,
    old: 1,
    is_tcp: false,
    is_tls: false,
    failures: 0,
    suspends: 10,
    waits: 10,
    ends: 1,
};

/// Reads a number from the environment.
fn number<T: std::str::FromStr>(name: &str, otherwise: T) -> T {
    let value = std::env::var(name).ok();
    value.map_or(otherwise, |text| {
        text.parse()
            .ok()
            .unwrap_or_else(|| panic!("{name}={text} is no number"))
    })
}

fn hold(profile: Profile, share: u32) {
    hold_about(profile, share, |_| ());
}

/// Runs the configured number of schedules, or a share of it, each with a common subject.
pub(crate) fn hold_about(profile: Profile, share: u32, about: fn(&mut Schedule)) {
    panics::watch(app::PANIC);
    let seed: u64 = number("BOLIDE_MODEL_SEED", 0);
    let cases: u32 = number("BOLIDE_MODEL_CASES", CASES);
    let config = Config {
        cases: cases.div_ceil(share),
        failure_persistence: None,
        max_shrink_iters: SHRINKS_MAX,
        ..Config::default()
    };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(config, rng);
    eprintln!("BOLIDE_MODEL_SEED={seed} BOLIDE_MODEL_CASES={cases}");
    let schedules = strategy::schedule(profile).prop_map(move |mut schedule| {
        about(&mut schedule);
        schedule
    });
    let held = runner.run(&schedules, |schedule| {
        world::run(&schedule).map_err(TestCaseError::fail)
    });
    match held {
        Ok(()) => {}
        Err(TestError::Fail(reason, schedule)) => panic!("{reason}\n{schedule}"),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn requests_without_content() {
    hold(
        Profile {
            contents: 0,
            ..PLAIN
        },
        1,
    );
}

#[test]
fn requests_with_content() {
    hold(
        Profile {
            contents: 20,
            ..PLAIN
        },
        1,
    );
}

#[test]
fn malformed_requests() {
    let profile = Profile {
        contents: 8,
        faults: 3,
        ..PLAIN
    };
    hold(profile, 1);
}

#[test]
fn clients_that_read_slowly() {
    let profile = Profile {
        conversations_max: 1,
        contents: 2,
        narrow: 20,
        waits: 20,
        ..PLAIN
    };
    hold(profile, 1);
}

#[test]
fn clients_that_read_slowly_and_send_content() {
    let profile = Profile {
        conversations_max: 1,
        contents: 10,
        narrow: 30,
        suspends: 2,
        waits: 20,
        ..PLAIN
    };
    hold(profile, 1);
}

#[test]
fn applications_that_fail() {
    let profile = Profile {
        contents: 5,
        failures: 3,
        ..PLAIN
    };
    hold(profile, 1);
}

#[test]
fn old_clients_over_tcp() {
    let profile = Profile {
        conversations_max: 1,
        contents: 3,
        old: 10,
        is_tcp: true,
        failures: 1,
        ..PLAIN
    };
    hold(profile, 10);
}

#[test]
fn old_clients_over_tcp_that_read_slowly() {
    let profile = Profile {
        conversations_max: 1,
        requests_max: 2,
        contents: 1,
        old: 10,
        narrow: 30,
        is_tcp: true,
        waits: 20,
        ..PLAIN
    };
    hold(profile, 10);
}

/// Over TLS, with records in pieces.
#[test]
fn requests_over_tls() {
    let profile = Profile {
        contents: 8,
        faults: 1,
        failures: 1,
        is_tls: true,
        ..PLAIN
    };
    hold_about(profile, 1, |schedule| schedule.settings.is_crowded = false);
}

#[test]
fn clients_over_tls_that_read_slowly() {
    let profile = Profile {
        conversations_max: 1,
        contents: 5,
        narrow: 20,
        waits: 20,
        is_tls: true,
        ..PLAIN
    };
    hold_about(profile, 1, |schedule| schedule.settings.is_crowded = false);
}

#[test]
fn everything_at_once() {
    let profile = Profile {
        conversations_max: 3,
        steps_max: 30,
        contents: 8,
        faults: 1,
        narrow: 3,
        failures: 1,
        ..PLAIN
    };
    hold(profile, 1);
}
