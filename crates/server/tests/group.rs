//! Connections that are ready together: input, calls and responses in groups stay separate for each connection.

mod harness;

use harness::{Server, get, post};

/// More than one group, with the last one not full.
const CONNECTIONS: usize = 21;

#[test]
fn each_of_many_connections_gets_its_own_response() {
    let mut server = Server::new();
    let mut clients: Vec<_> = (0..CONNECTIONS).map(|_| server.connect()).collect();
    for turn in 0..3 {
        for (index, client) in clients.iter().enumerate() {
            client.send(&get(&format!("/{turn}/{index}")));
        }
        server.pass();
        for (index, client) in clients.iter_mut().enumerate() {
            assert_eq!(server.response(client).content, format!("/{turn}/{index}"));
        }
    }
}

#[test]
fn connections_of_every_kind_share_a_group() {
    let mut server = Server::new();
    let mut plain = server.connect();
    let mut halved = server.connect();
    let mut pipelined = server.connect();
    let gone = server.connect();
    let mut refused = server.connect();
    let mut posting = server.connect();
    let mut last = server.connect();
    let (start, end) = ("GET /hal", "ved HTTP/1.1\r\nHost: test\r\n\r\n");
    plain.send(&get("/plain"));
    halved.send(start);
    pipelined.send(&(get("/one") + &get("/big/5000") + &get("/two")));
    drop(gone);
    refused.send("no request\r\n\r\n");
    posting.send(&post("/read", "content"));
    last.send("GET /last HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
    server.pass();
    halved.send(end);
    assert_eq!(server.response(&mut plain).content, "/plain");
    assert_eq!(server.response(&mut halved).content, "/halved");
    assert_eq!(server.response(&mut pipelined).content, "/one");
    assert_eq!(server.response(&mut pipelined).content.len(), 5000);
    assert_eq!(server.response(&mut pipelined).content, "/two");
    assert_eq!(server.response(&mut refused).status, 400);
    assert_eq!(server.response(&mut posting).content, "content");
    let response = server.response(&mut last);
    assert!(response.is_last() && response.content == "/last");
}

#[test]
fn more_than_is_read_ahead_of_one_connection_is_served_too() {
    let mut server = Server::new();
    let mut clients = [server.connect(), server.connect(), server.connect()];
    let batch: String = (0..1200).map(|number| get(&format!("/{number}"))).collect();
    assert!(batch.len() > 2 * 17 * 1024);
    for client in &clients {
        client.send(&batch);
    }
    for client in &mut clients {
        for number in 0..1200 {
            assert_eq!(server.response(client).content, format!("/{number}"));
        }
    }
}

#[test]
fn a_panic_loses_no_other_response_of_its_group() {
    let mut server = Server::new();
    let mut clients: Vec<_> = (0..5).map(|_| server.connect()).collect();
    for (index, client) in clients.iter().enumerate() {
        let target = if index == 2 { "/panic" } else { "/calm" };
        client.send(&get(target));
    }
    server.pass();
    for (index, client) in clients.iter_mut().enumerate() {
        match index {
            2 => server.expect_end(client),
            _ => assert_eq!(server.response(client).content, "/calm"),
        }
    }
}

#[test]
fn a_response_with_more_work_is_sent_before_that_work() {
    let mut server = Server::new();
    let client = server.connect_with_witness();
    let others: Vec<_> = (0..3).map(|_| server.connect()).collect();
    for (other, target) in others.iter().zip(["/a", "/b", "/c"]) {
        other.send(&get(target));
    }
    client.send(&get("/ahead/1"));
    server.pass();
    client.send(&get("/ahead/2"));
    server.pass();
    let witnessed = &server.worker.app.witnessed;
    assert_eq!(witnessed.len(), 2);
    for (index, response) in witnessed.iter().enumerate() {
        assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
        assert!(
            response.ends_with(&format!("\r\n\r\n/ahead/{}", index + 1)),
            "{response}"
        );
    }
}

#[test]
fn a_response_with_more_work_waits_for_those_of_the_next_events() {
    let mut server = Server::new();
    let client = server.connect_with_witness();
    let mut others: Vec<_> = (0..3).map(|_| server.connect()).collect();
    client.send(&get("/ahead/1"));
    for other in &others {
        other.send(&get("/other"));
    }
    server.pass();
    let witnessed = std::mem::take(&mut server.worker.app.witnessed);
    assert_eq!(witnessed, [""]);
    client.send(&get("/ahead/2"));
    server.pass();
    // The first response is before the second.
    let witnessed = server.worker.app.witnessed.concat();
    assert!(witnessed.starts_with("HTTP/1.1 200 OK\r\n") && witnessed.contains("\r\n\r\n/ahead/1"));
    assert!(witnessed.ends_with("\r\n\r\n/ahead/2"), "{witnessed}");
    for other in &mut others {
        assert_eq!(server.response(other).content, "/other");
    }
}

#[test]
fn a_response_that_cannot_join_others_is_sent_before_more_work() {
    let long = get(&format!("/ahead/{}", "x".repeat(8120)));
    let closing = "GET /ahead/1 HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n".into();
    for request in [long, closing] {
        let mut server = Server::new();
        let client = server.connect_with_witness();
        let other = server.connect();
        client.send(&request);
        other.send(&get("/other"));
        server.pass();
        let witnessed = server.worker.app.witnessed.concat();
        assert!(witnessed.starts_with("HTTP/1.1 200 OK\r\n"), "{request}");
    }
}

#[test]
fn a_response_after_others_is_not_sent_early() {
    let mut server = Server::new();
    let mut client = server.connect();
    client.send(&(get("/later/1") + &get("/ahead/2")));
    server.settle();
    assert!(client.is_quiet());
    server.respond(server.exchange("/later/1"), "one");
    assert_eq!(server.response(&mut client).content, "one");
    assert_eq!(server.response(&mut client).content, "/ahead/2");
}

#[test]
fn a_client_that_is_gone_when_a_response_is_sent_early_ends_alone() {
    let mut server = Server::new();
    let client = server.connect_with_witness();
    let mut other = server.connect();
    client.send(&get("/ahead/1"));
    let close = "GET /ahead/2 HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n";
    server.pass();
    client.send(close);
    server.settle();
    assert_eq!(server.worker.app.witnessed.len(), 2);
    assert_eq!(server.ask(&mut other, &get("/other")).content, "/other");
    assert_eq!(
        server
            .worker
            .open_connections()
            .load(std::sync::atomic::Ordering::Relaxed),
        1
    );
}
