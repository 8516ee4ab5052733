//! Every byte of every response is checked, if the plan specifies it.

mod fixture;

use std::io::Write;

use fixture::{expecting, outcome, plan, plan_of, read_request, responding, server};
use load::generator::{Expectation, Request};

const NO_ERRORS: Vec<String> = Vec::new();
const HI: &str = "HTTP/1.1 200 OK\r\nDate: a\r\nContent-Length: 2\r\n\r\nhi";
const HI_LATER: &str = "HTTP/1.1 200 OK\r\nDate: later\r\nContent-Length: 2\r\n\r\nhi";
const HO: &str = "HTTP/1.1 200 OK\r\nDate: a\r\nContent-Length: 2\r\n\r\nho";
const HI_CHUNKED: &str = "HTTP/1.1 200 OK\r\nDate: a\r\nTransfer-Encoding: chunked\r\n\r\n\
    1;x=y\r\nh\r\n1\r\ni\r\n0\r\nServer-Timing: a\r\n\r\n";
const HO_CHUNKED: &str =
    "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nho\r\n0\r\n\r\n";
const HEY: &str = "HTTP/1.1 200 OK\r\nDate: a\r\nContent-Length: 3\r\n\r\nhey";
const H: &str = "HTTP/1.1 200 OK\r\nDate: a\r\nContent-Length: 1\r\n\r\nh";

fn content(expected: &str) -> Expectation {
    Expectation {
        content: Some(expected.into()),
        ..Expectation::default()
    }
}

fn template() -> Expectation {
    Expectation {
        is_template: true,
        ..Expectation::default()
    }
}

fn failed(classes: &[&str]) -> Vec<String> {
    classes.iter().map(|it| String::from(*it)).collect()
}

#[test]
fn content_that_differs_fails_that_request_only() {
    for depth in [1, 8] {
        let address = server(responding(&[
            HI, HI_LATER, HO, HI, HI_CHUNKED, HO_CHUNKED, HEY, H,
        ]));
        let asked = plan_of(address, 16, depth, expecting(content("hi")));
        let errors = failed(&["short 2", "long 2", "wrong_body 4"]);
        assert_eq!(outcome(&asked), (8, errors), "{depth}");
    }
}

#[test]
fn the_first_response_is_the_template_except_for_its_date() {
    for depth in [1, 6] {
        let address = server(responding(&[HI, HI_LATER, HI, HO, HI_CHUNKED, HEY]));
        let asked = plan_of(address, 12, depth, expecting(template()));
        // A chunked response has another head.
        let errors = failed(&["long 2", "wrong_body 4"]);
        assert_eq!(outcome(&asked), (6, errors), "{depth}");
    }
}

#[test]
fn templates_and_contents_may_be_longer_than_any_buffer() {
    const LENGTH: usize = 1 << 20;
    for expected in [content(&"y".repeat(LENGTH)), template()] {
        let address = server(|mut stream| {
            let mut count = 0;
            while read_request(&mut stream) {
                let mut content = vec![b'y'; LENGTH];
                count += 1;
                if count % 4 == 0 {
                    content[LENGTH - 5] = b'n';
                }
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {LENGTH}\r\n\r\n");
                let _ = stream.write_all(head.as_bytes());
                let _ = stream.write_all(&content);
            }
        });
        let asked = plan_of(address, 8, 1, expecting(expected));
        assert_eq!(outcome(&asked), (6, failed(&["wrong_body 2"])));
    }
}

#[test]
fn lengths_may_differ_if_the_plan_allows_it() {
    let address = server(responding(&[HI, HEY, H]));
    let expected = Expectation {
        is_any_length: true,
        ..Expectation::default()
    };
    let asked = plan_of(address, 9, 3, expecting(expected));
    assert_eq!(outcome(&asked), (9, NO_ERRORS));
}

#[test]
fn any_successful_status_is_right_unless_one_is_named() {
    const CREATED: &str = "HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nhi";
    const FOUND: &str = "HTTP/1.1 302 Found\r\nContent-Length: 2\r\n\r\nhi";
    let address = server(responding(&[HI, CREATED, FOUND]));
    let found = outcome(&plan(address.clone(), 9, 1));
    assert_eq!(found, (6, failed(&["wrong_status 3"])));
    let expected = Expectation {
        status: Some(302),
        ..Expectation::default()
    };
    let found = outcome(&plan_of(address, 9, 1, expecting(expected)));
    assert_eq!(found, (3, failed(&["wrong_status 6"])));
}

/// Responds to every request with its own target. Unless `is_ordered`, the second and third of eight responses are swapped.
fn echoing_targets(is_ordered: bool) -> impl Fn(std::net::TcpStream) + Send + 'static {
    move |mut stream| {
        let mut reader = stream.try_clone().expect("a second handle");
        loop {
            let mut responses = Vec::new();
            for _ in 0..8 {
                let Some(target) = fixture::read_target(&mut reader) else {
                    return;
                };
                responses.push(format!(
                    "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{target}",
                    target.len()
                ));
            }
            if !is_ordered {
                responses.swap(1, 2);
            }
            let _ = stream.write_all(responses.concat().as_bytes());
        }
    }
}

#[test]
fn responses_in_the_wrong_order_are_detected_by_their_contents() {
    let request = |target: &str, weight| Request {
        target: target.into(),
        weight,
        expected: content(target),
        ..Request::default()
    };
    for (is_ordered, expected) in [
        (true, (80, NO_ERRORS)),
        (false, (60, failed(&["wrong_body 20"]))),
    ] {
        let mut asked = plan(server(echoing_targets(is_ordered)), 80, 8);
        asked.requests = vec![request("/a", 1), request("/b", 1)];
        assert_eq!(outcome(&asked), expected);
    }
}

#[test]
fn a_mix_is_sent_by_weight() {
    let request = |target: &str, weight| Request {
        target: target.into(),
        weight,
        expected: content(target),
        ..Request::default()
    };
    let mut asked = plan(server(echoing_targets(true)), 800, 8);
    asked.requests = vec![request("/often", 7), request("/rare", 1)];
    assert_eq!(outcome(&asked), (800, NO_ERRORS));
    // The contents above prove which target was requested when; by weight they add up to these bytes.
    let report = load::generator::run(&asked).expect("a run");
    assert_eq!(report.content_bytes_received, 700 * 6 + 100 * 5);
}
