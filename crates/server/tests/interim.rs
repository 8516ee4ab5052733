//! Interim responses before a response (RFC 9110 section 15.2, RFC 8297).

mod harness;

use harness::{Server, get, post_chunked, response};
use server::{Command, ExchangeId, Response};

const EARLY: &str = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n";

fn inform(server: &Server, id: ExchangeId, status: u16) {
    let fields = b"Link: </a.css>; rel=preload\r\n".to_vec();
    server.post(id, Command::Inform { status, fields });
}

#[test]
fn interim_responses_are_sent_at_once_and_before_the_response() {
    let mut server = Server::new();
    let mut client = server.connect();
    client.send(&get("/later"));
    server.settle();
    let id = server.exchange("/later");
    inform(&server, id, 103);
    server.settle();
    client.receive();
    assert_eq!(client.rest(), EARLY);
    assert_eq!(server.worker.app.writables, [id]);
    inform(&server, id, 103);
    server.respond(id, "done");
    let response = server.response(&mut client);
    assert_eq!(
        (response.interim.as_slice(), response.content.as_str()),
        (&[103, 103][..], "done")
    );
    assert_eq!(server.ask(&mut client, &get("/next")).content, "/next");
}

#[test]
fn interim_responses_keep_the_order_of_the_requests() {
    let mut server = Server::new();
    let mut client = server.connect();
    client.send(&(get("/later/1") + &get("/later/2")));
    server.settle();
    inform(&server, server.exchange("/later/2"), 103);
    server.settle();
    assert!(client.is_quiet(), "it overtook the response before it");
    server.respond(server.exchange("/later/1"), "one");
    let response = server.response(&mut client);
    assert_eq!(
        (response.interim.len(), response.content.as_str()),
        (0, "one")
    );
    client.receive();
    assert_eq!(client.rest(), EARLY, "it waits for nothing else");
    server.respond(server.exchange("/later/2"), "two");
    let response = server.response(&mut client);
    assert_eq!(
        (response.interim.as_slice(), response.content.as_str()),
        (&[103][..], "two")
    );
}

#[test]
fn http_1_0_is_sent_no_interim_response() {
    let mut server = Server::new();
    let mut client = server.connect();
    client.send("GET /later HTTP/1.0\r\n\r\n");
    server.settle();
    let id = server.exchange("/later");
    inform(&server, id, 103);
    server.settle();
    assert!(client.is_quiet());
    server.respond(id, "done");
    assert_eq!(server.response(&mut client).interim, []);
}

#[test]
fn a_response_that_has_started_is_not_interrupted() {
    let mut server = Server::new();
    let mut client = server.connect();
    client.send(&get("/push"));
    server.settle();
    let id = server.exchange("/push");
    let head = Response {
        length: Some(4),
        ..response(200, "")
    };
    server.post(id, Command::Begin(head));
    inform(&server, id, 103);
    server.post(id, Command::Write(b"part".into()));
    server.post(id, Command::Finish);
    inform(&server, id, 103);
    let response = server.response(&mut client);
    assert_eq!(
        (response.interim.len(), response.content.as_str()),
        (0, "part")
    );
    assert_eq!(server.ask(&mut client, &get("/next")).interim, []);
}

#[test]
fn only_what_is_interim_and_harmless_is_sent() {
    let mut server = Server::new();
    let mut client = server.connect();
    client.send(&get("/later"));
    server.settle();
    let id = server.exchange("/later");
    for status in [100, 101, 200, 99, 102, 199] {
        inform(&server, id, status);
    }
    server.respond(id, "");
    assert_eq!(server.response(&mut client).interim, [102, 199]);
}

#[test]
fn a_continue_may_follow_an_interim_response() {
    let mut server = Server::new();
    let mut client = server.connect();
    let expecting = post_chunked("/later").replace("\r\n\r\n", "\r\nExpect: 100-continue\r\n\r\n");
    client.send(&expecting);
    server.settle();
    let id = server.exchange("/later");
    inform(&server, id, 103);
    server.post(id, Command::Read);
    server.settle();
    client.send("0\r\n\r\n");
    server.settle();
    server.respond(id, "");
    assert_eq!(server.response(&mut client).interim, [103, 100]);
}
