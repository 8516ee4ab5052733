//! Trailer sections after a response (RFC 9110 section 6.5, RFC 9112 section 7.1.2).

mod harness;

use harness::{Server, get, response};
use server::{Command, Response};

/// The response with one part and one trailer line, after its head.
fn served(version: &str, length: Option<u64>) -> String {
    let mut server = Server::new();
    let mut client = server.connect();
    client.send(&get("/push").replace("HTTP/1.1", version));
    server.settle();
    let id = server.exchange("/push");
    let head = Response {
        length,
        ..response(200, "")
    };
    server.post(id, Command::Begin(head));
    server.post(id, Command::Write(b"part".into()));
    server.post(id, Command::FinishWith(b"ETag: \"a\"\r\n".into()));
    server.settle();
    client.receive();
    let rest = client.rest();
    let (_, content) = rest.split_once("\r\n\r\n").expect("a whole head");
    let content = content.to_string();
    if version == "HTTP/1.1" {
        client.forget();
        assert_eq!(server.ask(&mut client, &get("/next")).content, "/next");
    }
    content
}

#[test]
fn a_trailer_section_follows_the_last_chunk() {
    let chunks = "4\r\npart\r\n0\r\nETag: \"a\"\r\n\r\n";
    assert_eq!(served("HTTP/1.1", None), chunks);
}

#[test]
fn a_trailer_section_is_dropped_if_the_framing_has_no_place_for_it() {
    assert_eq!(served("HTTP/1.1", Some(4)), "part");
    assert_eq!(served("HTTP/1.0", None), "part");
}

#[test]
fn a_response_without_content_has_no_trailer_section() {
    let mut server = Server::new();
    let mut client = server.connect();
    client.send(&get("/push").replace("GET", "HEAD"));
    server.settle();
    let id = server.exchange("/push");
    server.post(id, Command::Begin(response(200, "")));
    server.post(id, Command::FinishWith(b"ETag: \"a\"\r\n".into()));
    assert_eq!(server.response_to(&mut client, "HEAD").status, 200);
    assert_eq!(server.ask(&mut client, &get("/next")).content, "/next");
}
