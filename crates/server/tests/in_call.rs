//! What leaves while the application is called, and between two passes.

mod harness;

use harness::{Server, get, response};
use server::{Abort, Command};

#[test]
fn what_is_sent_during_a_call_has_left_before_its_end() {
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
fn responses_before_it_in_the_batch_leave_with_it() {
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
fn a_content_that_is_left_open_cuts_the_connection() {
    let mut server = Server::new();
    let mut client = server.connect();
    client.send(&get("/open"));
    server.pass_until(|_| client.is_ended());
    assert!(client.rest().ends_with("4\r\npart\r\n"));
}

#[test]
fn what_is_posted_leaves_between_two_passes() {
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
fn responses_leave_in_order_between_two_passes_too() {
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
