//! What is sent during a call of the application, and between two passes.

mod harness;

use harness::{Server, get, post, post_chunked, response};
use server::{Abort, Command};

#[test]
fn what_is_sent_during_a_call_arrives_before_its_end() {
    let mut server = Server::new();
    let mut client = server.connect_with_witness();
    client.send(&get("/begun/2"));
    server.settle();
    let witnessed = &server.worker.app.witnessed;
    assert!(
        witnessed[0].ends_with("\r\n\r\n4\r\npart\r\n"),
        "{witnessed:?}"
    );
    assert_eq!(witnessed[1], "4\r\npart\r\n");
    let id = server.exchange("/begun/2");
    server.post(id, Command::Write(b"more".to_vec()));
    server.post(id, Command::Finish);
    server.settle();
    client.receive();
    assert_eq!(client.rest(), "4\r\nmore\r\n0\r\n\r\n");
    assert_eq!(server.worker.app.writables, [id]);
    client.forget();
    assert_eq!(server.ask(&mut client, &get("/next")).content, "/next");
}

#[test]
fn earlier_responses_of_the_batch_are_sent_with_it() {
    let mut server = Server::new();
    let client = server.connect_with_witness();
    client.send(&(get("/a") + &get("/begun/1")));
    server.settle();
    let witnessed = &server.worker.app.witnessed[0];
    assert!(
        witnessed.contains("\r\n\r\n/aHTTP/1.1 200 OK"),
        "{witnessed}"
    );
    assert!(witnessed.ends_with("4\r\npart\r\n"));
}

#[test]
fn a_content_that_is_left_open_truncates_the_connection() {
    let mut server = Server::new();
    let mut client = server.connect();
    client.send(&get("/open"));
    server.pass_until(|_| client.is_ended());
    assert!(client.rest().ends_with("4\r\npart\r\n"));
}

#[test]
fn what_is_posted_is_sent_between_two_passes() {
    let mut server = Server::new();
    let mut client = server.connect();
    client.send(&get("/later"));
    server.settle();
    let id = server.exchange("/later");
    server.post(id, Command::Begin(response(200, "")));
    server.post(id, Command::Write(b"part".to_vec()));
    server.worker.send_posted();
    client.receive();
    assert!(client.rest().ends_with("\r\n\r\n4\r\npart\r\n"));
    assert!(server.worker.app.writables.is_empty(), "it was called");
    server.settle();
    assert_eq!(server.worker.app.writables, [id]);
    client.forget();
    server.post(id, Command::Finish);
    server.worker.send_posted();
    client.receive();
    assert_eq!(client.rest(), "0\r\n\r\n");
    client.forget();
    assert_eq!(server.ask(&mut client, &get("/next")).content, "/next");
}

#[test]
fn what_a_socket_did_not_accept_is_sent_between_two_passes_too() {
    let mut server = Server::new();
    let mut client = server.connect();
    client.send(&get("/later"));
    server.settle();
    let id = server.exchange("/later");
    let content = "x".repeat(5_000_000);
    server.post(id, Command::Begin(response(200, "")));
    server.post(id, Command::Write(content.clone().into_bytes()));
    server.post(id, Command::Finish);
    assert!(server.worker.send_posted(), "one socket accepts less");
    let mut rounds = 0;
    while server.worker.send_posted() {
        client.receive();
        rounds += 1;
        assert!(rounds < 1000, "nothing is sent");
    }
    client.receive();
    assert!(client.rest().ends_with("x\r\n0\r\n\r\n"));
    assert!(client.rest().len() > content.len());
    client.forget();
    assert_eq!(server.ask(&mut client, &get("/next")).content, "/next");
}

#[test]
fn whatever_the_application_has_to_do_waits_for_the_next_pass() {
    let mut server = Server::new();
    let mut client = server.connect();
    client.send("HEAD /later HTTP/1.1\r\nHost: test\r\n\r\n");
    server.settle();
    let id = server.exchange("/later");
    server.post(id, Command::Read);
    server.post(id, Command::Begin(response(200, "")));
    server.worker.send_posted();
    assert!(client.is_quiet(), "it overtook what was posted before");
    server.settle();
    assert_eq!(server.abort_of("/later"), Some(Abort::Refused));

    client.forget();
    client.receive();
    client.forget();
    client.send("HEAD /later/2 HTTP/1.1\r\nHost: test\r\n\r\n");
    server.settle();
    let id = server.exchange("/later/2");
    server.post(id, Command::Begin(response(200, "")));
    server.worker.send_posted();
    client.receive();
    assert!(client.rest().ends_with("\r\n\r\n"));
    assert_eq!(server.abort_of("/later/2"), None);
    server.settle();
    assert_eq!(server.abort_of("/later/2"), Some(Abort::Refused));
}

#[test]
fn responses_are_sent_in_order_between_two_passes_too() {
    let mut server = Server::new();
    let mut client = server.connect();
    client.send(&(get("/later/1") + &get("/later/2")));
    server.settle();
    server.respond(server.exchange("/later/2"), "two");
    server.worker.send_posted();
    assert!(client.is_quiet(), "a response overtook the first");
    server.respond(server.exchange("/later/1"), "one");
    server.worker.send_posted();
    for content in ["one", "two"] {
        assert_eq!(server.response(&mut client).content, content);
    }
}

/// Asserts that the witness has received a whole response to a target.
fn assert_has_response(server: &Server, target: &str) {
    let witnessed = &server.worker.app.witnessed;
    let first = witnessed.first().map(String::as_str).unwrap_or_default();
    assert!(first.starts_with("HTTP/1.1 200 OK\r\n"), "{witnessed:?}");
    assert!(
        first.ends_with(&format!("\r\n\r\n{target}")),
        "{witnessed:?}"
    );
}

#[test]
fn a_response_of_another_connection_does_not_wait_for_the_call() {
    let mut server = Server::new();
    let mut fast = server.connect_with_witness();
    let mut slow = server.connect();
    for round in ["/1", "/2"] {
        server.worker.app.witnessed.clear();
        fast.send(&get(round));
        slow.send(&get("/slow"));
        server.pass();
        assert_has_response(&server, round);
        assert_eq!(server.response(&mut slow).content, "/slow");
        assert!(fast.is_quiet(), "it was sent twice");
    }
}

#[test]
fn a_response_to_a_client_that_has_gone_affects_no_other() {
    let mut server = Server::new();
    let gone = server.connect();
    let mut fast = server.connect_with_witness();
    let mut slow = server.connect();
    for client in [&gone, &fast, &slow] {
        client.send(&get("/begin"));
    }
    server.pass();
    for client in [&mut fast, &mut slow] {
        client.receive();
        client.forget();
    }
    gone.send(&get("/gone"));
    fast.send(&get("/fast"));
    slow.send(&get("/slow"));
    server.worker.app.witnessed.clear();
    let mut gone = Some(gone);
    server.worker.app.on_call = Some(Box::new(move || drop(gone.take())));
    server.pass();
    assert_has_response(&server, "/fast");
    assert_eq!(server.response(&mut slow).content, "/slow");
    server.settle();
    server.worker.app.witness = None;
    drop((fast, slow));
    server.pass_until(|server| server.is_empty());
}

#[test]
fn the_responses_before_it_on_its_connection_do_not_wait_for_the_call() {
    for next in [
        get("/slow"),
        post("/slow", "content"),
        post_chunked("/slow"),
        get("/later") + &get("/slow"),
    ] {
        let mut server = Server::new();
        let client = server.connect_with_witness();
        client.send(&(get("/fast") + &next));
        server.pass();
        assert_has_response(&server, "/fast");
    }
}

#[test]
fn what_others_have_posted_does_not_wait_for_a_call_that_a_response_unblocks() {
    for order in [[0, 1], [1, 0]] {
        let mut server = Server::new();
        let other = server.connect_with_witness();
        let mut client = server.connect();
        other.send(&(get("/later/0") + &post("/slow", "content")));
        client.send(&(get("/later/1") + &post("/slow", "content")));
        server.settle();
        for number in order {
            server.respond(server.exchange(&format!("/later/{number}")), "posted");
        }
        server.settle();
        assert_has_response(&server, "posted");
        assert_eq!(server.response(&mut client).content, "posted");
        assert_eq!(server.response(&mut client).content, "/slow");
    }
}

#[test]
fn what_others_have_posted_does_not_wait_for_a_call_that_the_end_of_a_content_unblocks() {
    let mut server = Server::new();
    server.worker.app.reads_on = false;
    let other = server.connect_with_witness();
    let mut client = server.connect();
    client.send("GET /parts HTTP/1.1\r\nHost: test\r\nContent-Length: 5\r\n\r\nab");
    other.send(&get("/later"));
    server.settle();
    client.send(&("cde".to_owned() + &get("/slow")));
    server.settle();
    let id = server.exchange("/parts");
    assert_eq!(server.worker.app.content_of(id), ("ab".into(), false));
    server.post(id, Command::Read);
    server.respond(server.exchange("/later"), "posted");
    server.settle();
    assert_eq!(server.worker.app.content_of(id), ("abcde".into(), true));
    assert_has_response(&server, "posted");
    server.respond(id, "read");
    for content in ["read", "/slow"] {
        assert_eq!(server.response(&mut client).content, content);
    }
}

#[test]
fn a_response_of_another_connection_does_not_wait_for_a_part_that_is_pulled() {
    let mut server = Server::new();
    let fast = server.connect_with_witness();
    let mut streamed = server.connect();
    fast.send(&get("/fast"));
    streamed.send(&get("/pull/2"));
    server.pass();
    assert_has_response(&server, "/fast");
    assert_eq!(server.response(&mut streamed).content, "pppppppppp");
}
