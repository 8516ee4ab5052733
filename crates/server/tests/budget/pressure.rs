//! What may grow under pressure can be ended or is not admitted: requests, and input and connections that are held without content.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use server::{Abort, Config};
use wire::h2::ErrorCode;

use crate::harness::h2::H2Client;
use crate::harness::{Client, Server, get, post};
use crate::{BUDGET, MIB, PATIENCE_MS, Random, with_budget};

/// What may always be held for the requests of one connection.
const REQUESTS_BYTES: usize = 16 * 1024;
/// One read, and what its buffer may have besides.
const READ_BYTES: usize = 128 * 1024;

fn with_memory(bytes: usize) -> (Server, Arc<AtomicU64>) {
    Server::with_manual_clock(|config: &mut Config| {
        config.memory_bytes_max = bytes as u64;
        config.accepts_prior_knowledge = true;
        config.timeouts.keep_alive_timeout_ms = 600_000;
    })
}

fn held(server: &Server) -> usize {
    server.worker.held_bytes() as usize
}

/// Sends what a client has written and reads what comes, until both have nothing more to do.
fn exchange(server: &mut Server, client: &mut H2Client, held_max: usize) {
    for _ in 0..3 {
        while client.has_pending() || server.worker.before_wait() == Some(0) {
            client.send(usize::MAX);
            server.pass();
            client.receive();
            let held = held(server);
            assert!(held <= held_max, "{held} of {held_max}");
        }
        server.settle();
        client.receive();
    }
}

fn count_of(clients: &[H2Client], status: u16) -> usize {
    let all = clients.iter().flat_map(|client| client.streams.values());
    all.filter(|stream| stream.status == status).count()
}

fn is_served(server: &mut Server) -> bool {
    let mut client = server.connect();
    client.send(&get("/usual"));
    server.response(&mut client).content == "/usual"
}

/// Ends all handlers.
fn respond_to_all(server: &mut Server) {
    for id in std::mem::take(&mut server.worker.app.running) {
        server.respond(id, "");
    }
    server.settle();
}

#[test]
fn heads_of_requests_that_run_do_not_exceed_the_budget() {
    let (mut server, _) = with_memory(BUDGET);
    // On the wire these are few bytes: the line is in the table.
    let fields = format!("x-long: {}\r\n", "v".repeat(3900)).repeat(8);
    let mut clients: Vec<H2Client> = (0..8).map(|_| H2Client::new(server.connect())).collect();
    for client in &mut clients {
        for _ in 0..100 {
            client.open_with("GET", "/later", &fields, true);
        }
        exchange(&mut server, client, BUDGET);
        assert!(is_served(&mut server));
    }
    let (running, refused) = (server.worker.app.running.len(), count_of(&clients, 503));
    assert_eq!(running + refused, 800);
    // As many as fit into 13/16, and a few more.
    assert!((420..520).contains(&running), "{running}");
    assert!(server.worker.app.aborted.is_empty());
    respond_to_all(&mut server);
    for client in &mut clients {
        exchange(&mut server, client, BUDGET);
    }
    assert_eq!(count_of(&clients, 200), running);
    drop(clients);
    server.settle();
    assert_eq!(held(&server), 0);
}

#[test]
fn requests_that_wait_for_an_earlier_one_do_not_exceed_the_budget() {
    let (mut server, now_ms) = with_budget();
    let padding = "v".repeat(7900);
    let next = format!("GET /next HTTP/1.1\r\nHost: test\r\nX: {padding}\r\n\r\n").repeat(8);
    let first = "POST /later HTTP/1.1\r\nHost: test\r\n\r\n";
    let mut clients: Vec<Client> = Vec::new();
    for _ in 0..320 {
        let client = server.connect();
        client.send(&format!("{first}{next}"));
        server.settle();
        clients.push(client);
        let held = held(&server);
        assert!(held <= BUDGET, "{held}");
        assert!(is_served(&mut server));
    }
    // Pressure that lasts ends without an upload.
    for _ in 0..40 {
        now_ms.fetch_add(PATIENCE_MS / 10, Ordering::Relaxed);
        server.settle();
    }
    assert!(held(&server) <= BUDGET / 16 * 11);
    // What runs is not ended, and gets its response.
    assert!(server.worker.app.aborted.is_empty());
    assert_eq!(server.worker.app.running.len(), clients.len());
    let mut ended = 0;
    for client in &mut clients {
        let id = server.worker.app.running.remove(0);
        server.respond(id, "first");
        assert_eq!(server.response_to(client, "POST").content, "first");
        let second = server.response(client);
        if second.status == 503 {
            ended += 1;
            assert!(second.is_last());
            server.expect_end(client);
            continue;
        }
        for _ in 1..8 {
            assert_eq!(server.response(client).content, "/next");
        }
    }
    assert!((100..200).contains(&ended), "{ended}");
}

/// A server whose handlers hold all of its memory, for clients that wait for them.
fn with_working_clients() -> (Server, Vec<Client>) {
    let (mut server, _) = with_memory(MIB);
    let mut working = Vec::new();
    while held(&server) <= MIB {
        let client = server.connect();
        client.send(&post("/later", &"w".repeat(15_000)));
        server.settle();
        working.push(client);
    }
    (server, working)
}

#[test]
fn a_usual_request_is_served_when_nothing_is_left_and_a_large_one_is_not() {
    let (mut server, mut working) = with_working_clients();
    let running = working.len();
    assert_eq!(server.worker.app.running.len(), running);
    let before = held(&server);
    assert!(before <= MIB + REQUESTS_BYTES);
    assert!(is_served(&mut server));
    let mut other = server.connect();
    other.send(&post("/read", "short"));
    assert_eq!(server.response_to(&mut other, "POST").content, "short");
    // Neither arrived content nor a long head is free.
    for request in [
        post("/read", &"c".repeat(20_000)),
        get(&format!("/{}", "g".repeat(8000))),
    ] {
        let mut client = server.connect();
        client.send(&request.replace("Host", &format!("X: {}\r\nHost", "v".repeat(9000))));
        let refused = server.response(&mut client);
        assert_eq!(
            (refused.status, refused.get("retry-after")),
            (503, Some("1"))
        );
    }
    assert!(server.worker.app.aborted.is_empty());
    respond_to_all(&mut server);
    for client in &mut working {
        assert_eq!(server.response_to(client, "POST").status, 200);
    }
}

#[test]
fn one_connection_may_have_a_few_usual_requests_when_nothing_is_left() {
    let (mut server, working) = with_working_clients();
    let before = held(&server);
    let mut client = H2Client::new(server.connect());
    for _ in 0..100 {
        client.open("GET", "/later/usual", true);
    }
    exchange(&mut server, &mut client, before + 2 * REQUESTS_BYTES);
    let running = server.worker.app.running.len() - working.len();
    assert!((10..50).contains(&running), "{running}");
    assert_eq!(count_of(std::slice::from_ref(&client), 503), 100 - running);
    assert!(server.worker.app.aborted.is_empty());
    assert!(is_served(&mut server));
}

#[test]
fn content_within_its_window_does_not_exceed_the_budget() {
    for target in ["/whole", "/later"] {
        let (mut server, _) = with_memory(BUDGET);
        let mut usual = server.connect();
        usual.send(&get("/later/usual"));
        let mut clients: Vec<H2Client> = (0..5).map(|_| H2Client::new(server.connect())).collect();
        for client in &mut clients {
            for _ in 0..100 {
                client.open("POST", target, false);
            }
            exchange(&mut server, client, BUDGET);
        }
        // All were admitted, because they held little.
        assert_eq!(server.worker.app.called.len(), 501);
        assert!(held(&server) < MIB);
        for client in &mut clients {
            for stream in client.streams.keys().copied().collect::<Vec<_>>() {
                if !client.streams[&stream].is_over() {
                    client.data(stream, &[b'c'; 15_000], false);
                    client.data(stream, &[b'c'; 15_000], false);
                    client.data(stream, &[b'c'; 15_000], true);
                    exchange(&mut server, client, BUDGET + READ_BYTES);
                }
            }
        }
        assert!(is_served(&mut server), "{target}");
        clients.iter_mut().for_each(H2Client::receive);
        assert!(count_of(&clients, 503) > 50, "{target}");
        assert_eq!(server.abort_of("/later/usual"), None);
        server.respond(server.exchange("/later/usual"), "done");
        assert_eq!(server.response(&mut usual).content, "done");
    }
}

#[test]
fn idle_connections_do_not_exceed_the_budget_and_end_last() {
    const LITTLE: usize = 48 * 1024;
    let (mut server, now_ms) = with_memory(LITTLE);
    let mut working = H2Client::new(server.connect());
    working.open("GET", "/later", true);
    exchange(&mut server, &mut working, LITTLE);
    let mut clients: Vec<H2Client> = Vec::new();
    for number in 0..60 {
        now_ms.fetch_add(200, Ordering::Relaxed);
        let mut client = H2Client::new(server.connect());
        let target = format!("/{number}");
        let stream = client.open("GET", &target, true);
        exchange(&mut server, &mut client, LITTLE + 4096);
        assert_eq!(client.streams[&stream].content, target.as_bytes());
        server.settle();
        assert!(held(&server) <= LITTLE, "{}", held(&server));
        clients.push(client);
    }
    let is_ended = |client: &mut H2Client| {
        client.receive();
        client.is_ended()
    };
    let ended: Vec<bool> = clients.iter_mut().map(is_ended).collect();
    let count = ended.iter().filter(|it| **it).count();
    assert!(count > 10, "{count}");
    // Those that were idle for longest, and those that had no time to be that.
    assert!(ended[..count].iter().all(|it| *it));
    let codes = |client: &H2Client| client.goaways.iter().map(|it| it.1).collect::<Vec<_>>();
    assert_eq!(codes(&clients[0]), [ErrorCode::NO_ERROR]);
    assert!(!is_ended(&mut working) && server.worker.app.aborted.is_empty());
}

#[test]
fn idle_connections_stay_while_the_budget_is_not_exceeded_if_their_end_does_not_help() {
    let (mut server, now_ms) = with_memory(MIB);
    let mut idle = H2Client::new(server.connect());
    idle.open("GET", "/idle", true);
    exchange(&mut server, &mut idle, MIB);
    let mut working: Vec<Client> = Vec::new();
    while held(&server) <= MIB / 16 * 13 {
        let client = server.connect();
        client.send(&post("/later", &"w".repeat(15_000)));
        server.settle();
        working.push(client);
    }
    for _ in 0..30 {
        now_ms.fetch_add(500, Ordering::Relaxed);
        server.settle();
    }
    idle.receive();
    assert!(!idle.is_ended() && idle.goaways.is_empty());
    assert!(server.worker.app.aborted.is_empty());
}

#[test]
fn what_a_handler_has_not_asked_for_stays_while_the_budget_is_not_exceeded() {
    let (mut server, now_ms) = with_memory(MIB);
    let mut clients: Vec<Client> = Vec::new();
    while held(&server) <= MIB / 16 * 13 {
        let client = server.connect();
        let head = crate::announced("later", 200_000);
        client.send(&head);
        server.settle();
        client.send(&"c".repeat(30_000));
        server.settle();
        clients.push(client);
    }
    for _ in 0..30 {
        now_ms.fetch_add(500, Ordering::Relaxed);
        server.settle();
    }
    assert!(server.worker.app.aborted.is_empty());
    // Large content of others takes more than is left.
    let mut over: Vec<Client> = Vec::new();
    while held(&server) <= MIB && over.len() < 40 {
        let client = server.connect();
        client.send(&post("/later/over", &"w".repeat(15_000)));
        server.settle();
        over.push(client);
        if !server.worker.app.aborted.is_empty() {
            break;
        }
    }
    assert!(!server.worker.app.aborted.is_empty());
    let mut reasons = server.worker.app.aborted.iter().map(|(_, why)| *why);
    assert!(reasons.all(|why| why == Abort::Refused));
    let mut refused = 0;
    for client in &mut clients {
        refused += usize::from(
            client
                .take_response("POST")
                .is_some_and(|it| it.status == 503),
        );
    }
    assert_eq!(refused, server.worker.app.aborted.len());
    assert!(refused < clients.len());
}

#[test]
fn after_any_schedule_of_streams_nothing_is_held() {
    for seed in 1..=30 {
        run_streams(&mut Random(0x9e37_79b9_7f4a_7c15 + seed));
    }
}

/// A client, and its streams whose content it has not ended.
type Uploading = (H2Client, Vec<u32>);

fn run_streams(random: &mut Random) {
    const CLIENTS_MAX: usize = 8;
    let (mut server, now_ms) = with_memory(MIB);
    let mut clients: Vec<Uploading> = Vec::new();
    for _ in 0..150 {
        let index = random.below(clients.len() + 1);
        if index == clients.len() && clients.len() < CLIENTS_MAX {
            clients.push((H2Client::new(server.connect()), Vec::new()));
        }
        let Some(client) = clients.get_mut(index) else {
            continue;
        };
        act(random, &mut server, client);
        client.0.send(usize::MAX);
        now_ms.fetch_add(random.below(400) as u64, Ordering::Relaxed);
        server.settle();
        clients.iter_mut().for_each(|(client, _)| client.receive());
        clients.retain_mut(|(client, _)| !client.is_ended());
        let held = held(&server);
        assert!(held <= MIB + CLIENTS_MAX * REQUESTS_BYTES, "{held}");
    }
    drop(clients);
    server.settle();
    now_ms.fetch_add(100_000, Ordering::Relaxed);
    server.settle();
    assert_eq!(held(&server), 0);
}

/// A client does something, or a handler responds.
fn act(random: &mut Random, server: &mut Server, (client, uploads): &mut Uploading) {
    uploads.retain(|stream| !client.streams[stream].is_over());
    let upload = uploads.get(random.below(uploads.len() + 1)).copied();
    match (random.below(8), upload) {
        (0, _) => {
            let fields = format!("x-long: {}\r\n", "v".repeat(3000)).repeat(random.below(10));
            for _ in 0..1 + random.below(12) {
                client.open_with("GET", "/later", &fields, true);
            }
        }
        (1, _) => {
            client.open("GET", "/big/200000", true);
        }
        (2, _) | (_, None) => {
            let target = ["/read", "/parts", "/whole", "/later"][random.below(4)];
            uploads.push(client.open("POST", target, false));
        }
        (3 | 4, Some(stream)) => {
            let room_bytes = client.room_bytes.min(client.streams[&stream].room_bytes);
            let bytes = random.below(16_000).min(room_bytes.max(0) as usize);
            let is_last = random.below(8) == 0;
            client.data(stream, &vec![b'c'; bytes], is_last);
            uploads.retain(|it| *it != stream || !is_last);
        }
        (5, Some(stream)) => client.reset(stream),
        (6, Some(stream)) => client.give(stream, 100_000),
        (_, Some(_)) => {
            let running = &mut server.worker.app.running;
            if !running.is_empty() {
                let id = running.swap_remove(random.below(running.len()));
                server.respond(id, "done");
            }
        }
    }
}
