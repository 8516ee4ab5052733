//! Clients that send far more than they read, or in far smaller pieces than usual.

mod harness;

use std::time::Instant;

use harness::{Client, Server, get};

#[test]
fn a_flood_of_requests_from_a_client_that_never_reads_is_bounded() {
    const REQUESTS: usize = 100_000;
    let mut server = Server::new();
    let mut flooding = server.connect();
    let mut other = server.connect();
    let batch: String = (0..1000)
        .map(|number| get(&format!("/{number:03}")))
        .collect();
    let mut sent = 0;
    let send = |client: &Client, sent: &mut usize| {
        let waiting = batch
            .as_bytes()
            .get(*sent % batch.len()..)
            .unwrap_or_default();
        let taken = client.send_some(waiting);
        *sent += taken;
        taken
    };
    while send(&flooding, &mut sent) > 0 {
        server.settle();
    }
    // Data under way: two socket buffers, and one of each kind in the server.
    assert!(
        server.targets().len() < 20_000,
        "{} requests were started",
        server.targets().len()
    );
    assert_eq!(server.ask(&mut other, &get("/other")).content, "/other");
    // Now it reads: every response, in order.
    for number in 0..REQUESTS {
        let mut response = flooding.take_response("GET");
        while response.is_none() {
            if sent < REQUESTS / 1000 * batch.len() {
                send(&flooding, &mut sent);
            }
            server.pass();
            response = flooding.take_response("GET");
        }
        assert_eq!(response.unwrap().content, format!("/{:03}", number % 1000));
    }
}

#[test]
fn big_responses_to_a_client_that_never_reads_are_bounded() {
    let mut server = Server::new();
    let mut client = server.connect();
    client.send(&get("/big/100000").repeat(1000));
    server.settle();
    assert!(
        server.targets().len() < 10,
        "{} responses are held",
        server.targets().len()
    );
    for _ in 0..1000 {
        assert_eq!(server.response(&mut client).content.len(), 100_000);
    }
}

#[test]
fn a_stream_to_a_client_that_never_reads_is_bounded() {
    let mut server = Server::new();
    server.worker.app.pull_bytes = 10_000;
    let mut client = server.connect();
    client.send(&(get("/pull/1000") + &get("/next")));
    server.settle();
    assert_eq!(server.targets().len(), 2, "a safe request runs beside it");
    assert_eq!(server.response(&mut client).content.len(), 10_000_000);
    assert_eq!(server.response(&mut client).content, "/next");
}

#[test]
fn a_client_gets_no_more_turns_than_another_by_sending() {
    let mut server = Server::new();
    server.worker.app.pull_bytes = 1000;
    let mut clients = [server.connect_by_tcp(), server.connect_by_tcp()];
    for client in &clients {
        client.send(&get("/pull/9000000"));
    }
    let mut received = [0, 0];
    for byte in get("/next").chars().take(30) {
        clients[0].send(&byte.to_string());
        for _ in 0..3 {
            server.pass();
            for (client, received) in clients.iter_mut().zip(&mut received) {
                client.receive();
                *received += client.rest_bytes();
                client.forget();
            }
        }
    }
    assert!(
        received[1] > 0 && received[0] < 2 * received[1],
        "{received:?}"
    );
}

#[test]
fn an_endless_stream_leaves_others_their_turn() {
    let mut server = Server::new();
    server.worker.app.pull_bytes = 1000;
    let mut streaming = server.connect();
    streaming.send(&get("/pull/1000000000"));
    let mut other = server.connect();
    for _ in 0..20 {
        streaming.receive();
        streaming.forget();
        assert_eq!(server.ask(&mut other, &get("/other")).content, "/other");
    }
}

#[test]
fn a_stream_of_empty_parts_leaves_others_their_turn() {
    let mut server = Server::new();
    server.worker.app.pull_bytes = 0;
    let streaming = server.connect();
    streaming.send(&get("/pull/1000000000000"));
    let mut other = server.connect();
    assert_eq!(server.ask(&mut other, &get("/other")).content, "/other");
}

#[test]
fn a_head_in_single_bytes_costs_linear_time() {
    let seconds = |field_lines: usize, value_bytes: usize| {
        let line = format!("A: {}\r\n", "a".repeat(value_bytes));
        let request = get("/").replace("\r\n\r\n", "\r\n") + &line.repeat(field_lines) + "\r\n";
        let mut server = Server::new();
        let mut client = server.connect();
        let start = Instant::now();
        for byte in request.as_bytes().chunks(1) {
            client.send_some(byte);
            server.pass();
        }
        assert_eq!(server.response(&mut client).status, 200);
        start.elapsed().as_secs_f64() / request.len() as f64
    };
    let (short, long) = (seconds(1, 1000), seconds(1, 30_000));
    // Per byte. Quadratic cost would be thirty times higher.
    assert!(long < short * 10.0 + 1e-6, "{short} {long}");
}

#[test]
fn content_in_single_bytes_costs_linear_time() {
    let seconds = |size: usize| {
        let mut server = Server::new();
        let mut client = server.connect();
        client.send(&format!(
            "POST /read HTTP/1.1\r\nHost: test\r\nContent-Length: {size}\r\n\r\n"
        ));
        let start = Instant::now();
        for _ in 0..size {
            client.send("x");
            server.pass();
        }
        assert_eq!(server.response(&mut client).content.len(), size);
        start.elapsed().as_secs_f64() / size as f64
    };
    let (short, long) = (seconds(2000), seconds(40_000));
    assert!(long < short * 10.0 + 1e-6, "{short} {long}");
}
