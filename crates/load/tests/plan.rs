//! A contradiction in a plan is refused with one line, before anything is sent.

use std::time::Duration;

use load::generator::{Address, Expectation, Limit, Plan, Protocol, Request, Shape, Stage, run};

/// Why a plan is refused.
fn refusal(change: impl FnOnce(&mut Plan)) -> String {
    let mut plan = Plan::default();
    change(&mut plan);
    let error = run(&plan).expect_err("a refusal");
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput, "{error}");
    assert!(!error.to_string().contains('\n'));
    error.to_string()
}

fn refusal_of(request: Request) -> String {
    refusal(|plan| plan.requests = vec![request])
}

fn stage(seconds: u64, from: f64, to: f64) -> Stage {
    Stage {
        duration: Duration::from_secs(seconds),
        from,
        to,
    }
}

#[test]
fn amounts_that_cannot_be_are_refused() {
    assert!(refusal(|it| it.connections = 0).contains("at least 1"));
    assert!(refusal(|it| it.threads = 101).contains("more threads than connections"));
    assert!(refusal(|it| it.timeout = Duration::ZERO).contains("timeout"));
    assert!(refusal(|it| it.limit = Limit::Requests(0)).contains("some requests"));
    assert!(refusal(|it| it.limit = Limit::Duration(Duration::ZERO)).contains("some time"));
    assert!(refusal(|it| it.requests.clear()).contains("no request"));
    let mixed = |plan: &mut Plan| {
        plan.limit = Limit::Requests(5);
        plan.warm_up = Duration::from_secs(1);
    };
    assert!(refusal(mixed).contains("no warm-up"));
}

#[test]
fn what_connections_cannot_do_is_refused() {
    let close = |plan: &mut Plan| {
        plan.is_persistent = false;
        plan.protocol = Protocol::Http11 { pipeline_depth: 2 };
    };
    assert!(refusal(close).contains("nothing to pipeline"));
    let single = |plan: &mut Plan| {
        plan.is_persistent = false;
        plan.protocol = Protocol::Http2 { streams: 2 };
    };
    assert!(refusal(single).contains("has one stream"));
    let none = |plan: &mut Plan| plan.protocol = Protocol::Http2 { streams: 0 };
    assert!(refusal(none).contains("at least 1"));
    let other_family = |plan: &mut Plan| plan.source_addresses = vec!["::1".parse().expect("it")];
    assert!(refusal(other_family).contains("IPv6"));
    let local = |plan: &mut Plan| {
        plan.address = Address::Local("/socket".into());
        plan.source_addresses = vec![[127, 0, 0, 1].into()];
    };
    assert!(refusal(local).contains("UNIX socket"));
}

#[test]
fn loads_that_cannot_be_are_refused() {
    for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(refusal(|it| it.shape = Shape::Rate(rate)).contains("not a rate"));
    }
    for stages in [vec![], vec![stage(0, 1.0, 1.0)], vec![stage(1, -1.0, 1.0)]] {
        assert!(refusal(|it| it.shape = Shape::Rates(stages)).contains("stage"));
    }
    let idle = vec![stage(1, 0.0, 0.0)];
    assert!(refusal(|it| it.shape = Shape::Connections(idle)).contains("always 0"));
    let ramped = |plan: &mut Plan| {
        plan.ramp_up = Duration::from_secs(1);
        plan.shape = Shape::Rates(vec![stage(1, 1.0, 1.0)]);
    };
    assert!(refusal(ramped).contains("leave out the ramp-up"));
    let many = vec![stage(1, 1.0, 101.0)];
    assert!(refusal(|it| it.shape = Shape::Connections(many)).contains("more connections"));
}

#[test]
fn requests_that_cannot_be_are_refused() {
    let blank = Request::default;
    let field = |name: &str, value: &str| Request {
        field_lines: vec![(name.into(), value.into())],
        ..Request::default()
    };
    let expecting = |expected| Request {
        expected,
        ..Request::default()
    };
    let cases = [
        (
            Request {
                target: "/a b".into(),
                ..blank()
            },
            "percent-encoded",
        ),
        (
            Request {
                target: String::new(),
                ..blank()
            },
            "not be empty",
        ),
        (
            Request {
                method: "GE T".into(),
                ..blank()
            },
            "not a method",
        ),
        (
            Request {
                host: "a\r\nb".into(),
                ..blank()
            },
            "host",
        ),
        (
            Request {
                weight: 0,
                ..blank()
            },
            "weight",
        ),
        (field("A", "b\r\nC: d"), "not a field line"),
        (field("Connection", "close"), "is_persistent"),
        (field("content-length", "3"), "content"),
        (field("Transfer-Encoding", "chunked"), "length"),
        (
            expecting(Expectation {
                length: Some(3),
                content: Some(b"hi".to_vec()),
                ..Expectation::default()
            }),
            "expected_length",
        ),
        (
            expecting(Expectation {
                is_template: true,
                content: Some(b"hi".to_vec()),
                ..Expectation::default()
            }),
            "is_template",
        ),
    ];
    for (request, reason) in cases {
        let found = refusal_of(request);
        assert!(found.contains(reason), "{found}");
    }
}

#[test]
fn too_long_a_cycle_is_refused() {
    let weighted = |weight| Request {
        weight,
        ..Request::default()
    };
    let found = refusal(|it| it.requests = vec![weighted(1_000_003), weighted(7)]);
    assert!(found.contains("round them"), "{found}");
}

#[test]
fn more_connections_than_descriptors_are_the_machines_limit() {
    let plan = Plan {
        connections: 100_000_000,
        ..Plan::default()
    };
    let error = run(&plan).expect_err("a refusal");
    assert!(error.to_string().contains("ulimit"), "{error}");
}

#[test]
fn requests_contain_what_the_plan_says() {
    let request = Request {
        field_lines: vec![("A".into(), "b".into())],
        host: "h".into(),
        ..Request::default()
    };
    let text = |is_http10, is_persistent| {
        let protocol = match is_http10 {
            true => Protocol::Http10,
            false => Plan::default().protocol,
        };
        let plan = Plan {
            protocol,
            is_persistent,
            ..Plan::default()
        };
        String::from_utf8(request.bytes(&plan)).expect("ASCII")
    };
    assert_eq!(
        text(false, true),
        "GET / HTTP/1.1\r\nHost: h\r\nA: b\r\n\r\n"
    );
    let closing = "GET / HTTP/1.1\r\nHost: h\r\nA: b\r\nConnection: close\r\n\r\n";
    assert_eq!(text(false, false), closing);
    assert_eq!(
        text(true, false),
        "GET / HTTP/1.0\r\nHost: h\r\nA: b\r\n\r\n"
    );
    let stated = "GET / HTTP/1.0\r\nHost: h\r\nA: b\r\nConnection: keep-alive\r\n\r\n";
    assert_eq!(text(true, true), stated);
    let own = Request {
        field_lines: vec![("host".into(), "mine".into())],
        ..Request::default()
    };
    let bytes = own.bytes(&Plan::default());
    assert_eq!(bytes, b"GET / HTTP/1.1\r\nhost: mine\r\n\r\n");
}

#[test]
fn content_that_a_response_cannot_have_is_refused() {
    let expectations = [
        Expectation {
            length: Some(0),
            ..Expectation::default()
        },
        Expectation {
            content: Some(Vec::new()),
            ..Expectation::default()
        },
    ];
    for expected in expectations {
        let request = Request {
            method: String::from("HEAD"),
            expected,
            ..Request::default()
        };
        assert!(refusal_of(request).contains("a response to HEAD has no content"));
    }
}
