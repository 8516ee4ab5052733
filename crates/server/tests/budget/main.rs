//! The budget of memory of a worker: what happens near it, and that the sum is right. In these tests every pass compares it with what the
//! connections really hold.

#[path = "../harness/mod.rs"]
mod harness;
mod pressure;
mod reaping;

use std::sync::atomic::{AtomicU64, Ordering};

use harness::websocket::{WebSocketClient, message};
use harness::{Client, Server, get, post};
use server::MessageKind as Kind;

const MIB: usize = 1 << 20;
const BUDGET: usize = 16 * MIB;
/// Longer than the server waits before it ends holders.
const PATIENCE_MS: u64 = 5500;

fn with_budget() -> (Server, std::sync::Arc<AtomicU64>) {
    Server::with_manual_clock(|config| config.memory_bytes_max = BUDGET as u64)
}

/// A client that has announced `length` bytes, and sent `sent` of them.
fn uploading(server: &mut Server, length: usize, sent: usize) -> Client {
    let mut client = server.connect();
    client.send(&announced("read", length));
    server.settle();
    send_content(server, &mut client, sent);
    client
}

/// The head of a request with content.
fn announced(target: &str, length: usize) -> String {
    format!("POST /{target} HTTP/1.1\r\nHost: test\r\nContent-Length: {length}\r\n\r\n")
}

/// Sends so many bytes, or less if the server reads no more. Returns how many.
fn send_content(server: &mut Server, client: &mut Client, bytes: usize) -> usize {
    let part = vec![b'c'; 32 * 1024];
    let mut sent = 0;
    while sent < bytes {
        let count = client.send_some(&part[..part.len().min(bytes - sent)]);
        if count == 0 {
            break;
        }
        sent += count;
        server.settle();
    }
    sent
}

/// Fills more than the high mark. Each client has less than a MiB to send: the result says how much.
fn filled(server: &mut Server) -> Vec<(Client, usize)> {
    let mut clients = Vec::new();
    while server.worker.held_bytes() <= (BUDGET / 16 * 13) as u64 {
        let mut client = server.connect();
        client.send(&announced("read", 2 * MIB));
        server.settle();
        let sent = send_content(server, &mut client, MIB + 100_000);
        clients.push((client, 2 * MIB - sent));
    }
    clients
}

#[test]
fn content_that_a_handler_reads_as_a_whole_counts_until_its_response() {
    let (mut server, _) = with_budget();
    let mut clients = Vec::new();
    for number in 0..6 {
        let mut client = server.connect();
        client.send(&announced(&format!("whole/{number}"), MIB));
        server.settle();
        assert_eq!(send_content(&mut server, &mut client, MIB), MIB);
        clients.push(client);
        let held = server.worker.held_bytes() as usize;
        assert!((number + 1) * MIB <= held && held < (number + 1) * (MIB + 8192));
    }
    for (number, client) in clients.iter_mut().enumerate() {
        let id = server.exchange(&format!("/whole/{number}"));
        assert_eq!(server.worker.app.content_of(id).0.len(), MIB);
        server.respond(id, "");
        assert_eq!(server.response_to(client, "POST").status, 200);
    }
    assert!(server.worker.held_bytes() < 10_000);
}

#[test]
fn those_that_hold_most_end_though_their_handlers_wait_for_them() {
    let (mut server, clock) = with_budget();
    let mut clients = Vec::new();
    while server.worker.held_bytes() <= (BUDGET / 16 * 13) as u64 {
        let mut client = server.connect();
        let target = format!("whole/{}", clients.len());
        client.send(&announced(&target, 2 * MIB));
        server.settle();
        send_content(&mut server, &mut client, MIB + 100_000);
        clients.push(client);
    }
    clock.fetch_add(PATIENCE_MS, Ordering::Relaxed);
    server.settle();
    server.settle();
    let ended = server.worker.app.aborted.len();
    assert!(ended > 0 && ended < clients.len(), "{ended}");
    let refused = clients.iter_mut().filter_map(|it| it.take_response("POST"));
    let statuses: Vec<u16> = refused.map(|response| response.status).collect();
    assert_eq!(statuses, vec![503; ended]);
}

#[test]
fn near_the_budget_new_content_is_refused_and_everything_else_is_served() {
    let (mut server, _) = with_budget();
    let clients = filled(&mut server);
    let mut late = server.connect();
    late.send(&announced("read", 200_000));
    let refused = server.response_to(&mut late, "POST");
    assert_eq!(refused.status, 503);
    assert_eq!(refused.get("retry-after"), Some("1"));
    let mut chunked = server.connect();
    chunked.send(&harness::post_chunked("/read"));
    assert_eq!(server.response_to(&mut chunked, "POST").status, 503);
    let mut other = server.connect();
    assert_eq!(server.ask(&mut other, &get("/other")).content, "/other");
    // It makes the server hold nothing.
    other.send(&post("/read", "short"));
    assert_eq!(server.response_to(&mut other, "POST").content, "short");
    let mut short = uploading(&mut server, 5, 5);
    assert_eq!(server.response_to(&mut short, "POST").content, "ccccc");
    drop(clients);
    server.settle();
    let mut next = uploading(&mut server, 50_000, 50_000);
    assert_eq!(server.response_to(&mut next, "POST").content.len(), 50_000);
    drop(next);
}

#[test]
fn content_that_does_not_fit_waits_and_continues() {
    let (mut server, now_ms) = with_budget();
    // It is held back first, because most of it is missing.
    let mut long = uploading(&mut server, 6 * MIB, 100_000);
    let clients = filled(&mut server);
    let before = server.worker.held_bytes();
    send_content(&mut server, &mut long, 64 * 1024);
    assert_eq!(server.worker.held_bytes(), before);
    // Its time does not run meanwhile; the others' time does not end here either.
    now_ms.fetch_add(4000, Ordering::Relaxed);
    server.settle();
    drop(clients);
    server.settle();
    assert!(server.worker.held_bytes() >= 164_000);
    send_content(&mut server, &mut long, 6 * MIB - 100_000 - 64 * 1024);
    let response = server.response_to(&mut long, "POST");
    assert_eq!((response.status, response.content.len()), (200, 6 * MIB));
}

#[test]
fn what_a_client_that_has_left_sent_is_not_held() {
    let (mut server, _) = with_budget();
    let mut long = uploading(&mut server, 6 * MIB, 100_000);
    let clients = filled(&mut server);
    send_content(&mut server, &mut long, 64 * 1024);
    let before = server.worker.held_bytes();
    drop(long);
    server.settle();
    assert!(server.worker.held_bytes() < before - 100_000);
    let left = clients.len();
    for (client, _) in clients {
        client.end();
        server.settle();
    }
    assert!(left > 5);
    assert_eq!(server.worker.held_bytes(), 0);
}

#[test]
fn content_of_which_little_is_missing_ends_the_pressure() {
    let (mut server, _) = with_budget();
    let clients = filled(&mut server);
    // The first ones to finish make room for the others.
    for (mut client, left) in clients {
        assert_eq!(send_content(&mut server, &mut client, left), left);
        assert_eq!(server.response_to(&mut client, "POST").status, 200);
    }
    let before_bytes = server.worker.held_bytes();
    assert!(before_bytes < MIB as u64, "{before_bytes}");
}

#[test]
fn who_holds_most_for_longest_ends_first() {
    let (mut server, now_ms) = with_budget();
    let mut small = uploading(&mut server, 2 * MIB, 100_000);
    let mut oldest = uploading(&mut server, 8 * MIB, 3 * MIB);
    now_ms.fetch_add(1000, Ordering::Relaxed);
    let mut clients = filled(&mut server);
    server.settle();
    now_ms.fetch_add(PATIENCE_MS, Ordering::Relaxed);
    server.settle();
    let ended = server.response_to(&mut oldest, "POST");
    assert_eq!((ended.status, ended.get("retry-after")), (503, Some("1")));
    assert!(small.take_response("POST").is_none());
    let is_whole = |client: &mut Client| client.take_response("POST").is_none();
    assert!(
        clients.iter_mut().all(|(client, _)| is_whole(client)),
        "one was enough"
    );
    let lines = server.worker.app.refusals.join("\n");
    assert!(
        lines.contains("ended 1 connection that held most for longest: "),
        "{lines}"
    );
    // There is room again.
    send_content(&mut server, &mut small, 2 * MIB - 100_000);
    assert_eq!(server.response_to(&mut small, "POST").status, 200);
}

#[test]
fn a_request_of_which_the_application_holds_everything_does_not_end() {
    let (mut server, now_ms) = with_budget();
    let mut working = server.connect();
    working.send(&post("/later", &"w".repeat(60_000)));
    server.settle();
    let before = server.worker.held_bytes();
    assert!((60_000..70_000).contains(&before), "{before}");
    now_ms.fetch_add(10_000, Ordering::Relaxed);
    let _clients = filled(&mut server);
    for _ in 0..40 {
        now_ms.fetch_add(1000, Ordering::Relaxed);
        server.settle();
    }
    assert!(server.worker.held_bytes() <= (BUDGET / 16 * 11) as u64);
    server.respond(server.exchange("/later"), "done");
    assert_eq!(server.response_to(&mut working, "POST").content, "done");
}

#[test]
fn responses_that_are_not_read_do_not_exceed_the_budget() {
    let (mut server, now_ms) = with_budget();
    let mut readers: Vec<Client> = (0..60).map(|_| server.connect_by_tcp()).collect();
    let mut victim = server.connect();
    for reader in &mut readers {
        reader.send(&get("/big/8000000"));
        server.settle();
        let held = server.worker.held_bytes();
        assert!(held <= BUDGET as u64, "{held}");
        assert_eq!(server.ask(&mut victim, &get("/v")).content, "/v");
        now_ms.fetch_add(10, Ordering::Relaxed);
    }
    let lines = server.worker.app.refusals.join("\n");
    assert!(lines.contains("that held most for longest"), "{lines}");
    drop((readers, victim));
    server.settle();
    assert_eq!(server.worker.held_bytes(), 0);
}

#[test]
fn long_messages_that_the_application_does_not_take_do_not_exceed_the_budget() {
    let (mut server, _) = with_budget();
    // The application takes one message of each.
    let mut clients: Vec<WebSocketClient> = (0..30)
        .map(|number| server.open(&format!("/ws/slow/{number}")))
        .collect();
    let frames = message(Kind::Binary, &vec![b'm'; MIB]);
    for client in &mut clients {
        let mut sent = 0;
        while sent < frames.len() {
            let count = client.client.send_some(&frames[sent..]);
            server.settle();
            sent += count;
            if count == 0 {
                // It waits until there is room.
                break;
            }
        }
        let held = server.worker.held_bytes();
        assert!(held <= BUDGET as u64, "{held}");
    }
    let taken = server.worker.app.messages.len();
    assert!((8..16).contains(&taken), "{taken}");
    drop(clients);
    server.settle();
    assert_eq!(server.worker.held_bytes(), 0);
}

/// Clients that subscribe to the topic `t`, and read nothing.
fn subscribers(server: &mut Server, count: usize) -> Vec<WebSocketClient> {
    let target = |number| format!("/ws/sub/t/{number}");
    (0..count)
        .map(|number| server.open(&target(number)))
        .collect()
}

fn publish(server: &mut Server, count: usize, bytes: usize) {
    let text = "x".repeat(bytes);
    for _ in 0..count {
        server.publish("t", &text);
        server.settle();
    }
}

#[test]
fn what_many_subscribers_do_not_read_counts_once() {
    let (mut server, clock) = with_budget();
    let subscribers = subscribers(&mut server, 60);
    // Each waits for more than half a MiB.
    publish(&mut server, 15, 60_000);
    let held = server.worker.held_bytes() as usize;
    assert!((600_000..2 * MIB).contains(&held), "{held}");
    let mut client = uploading(&mut server, MIB, MIB);
    assert_eq!(server.response_to(&mut client, "POST").status, 200);
    clock.fetch_add(PATIENCE_MS, Ordering::Relaxed);
    server.settle();
    assert_eq!(server.worker.app.closed, []);
    drop(subscribers);
    server.pass_until(|server| server.worker.app.closed.len() == 60);
    server.settle();
    assert!(server.worker.held_bytes() < 10_000);
}

#[test]
fn all_holders_of_what_exceeds_the_budget_end_and_others_stay() {
    let (mut server, clock) = Server::with_manual_clock(|config| {
        config.memory_bytes_max = BUDGET as u64;
        config.limits.websocket_queued_bytes_max = 1 << 30;
    });
    let subscribers = subscribers(&mut server, 4);
    publish(&mut server, 1, MIB);
    clock.fetch_add(100, Ordering::Relaxed);
    // Each of the others has a larger part of what it shares.
    let mut client = uploading(&mut server, 2 * MIB, MIB);
    publish(&mut server, 15, MIB);
    server.settle();
    assert_eq!(server.worker.app.closed.len(), 4);
    let held = server.worker.held_bytes() as usize;
    assert!((MIB..2 * MIB).contains(&held), "{held}");
    assert_eq!(send_content(&mut server, &mut client, MIB), MIB);
    assert_eq!(server.response_to(&mut client, "POST").status, 200);
    drop(subscribers);
}

/// A small generator of random numbers (xorshift).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

#[test]
fn after_any_schedule_nothing_is_held() {
    for seed in 1..=40 {
        run_schedule(Random(0x9e37_79b9_7f4a_7c15 + seed));
    }
}

fn run_schedule(mut random: Random) {
    let (mut server, now_ms) = Server::with_manual_clock(|config| {
        config.memory_bytes_max = MIB as u64;
        config.limits.connections_max = 12;
    });
    let mut clients: Vec<Client> = Vec::new();
    for _ in 0..200 {
        let index = random.below(clients.len() + 1);
        match (random.below(8), clients.get_mut(index)) {
            (0 | 1, _) | (_, None) => clients.push(server.connect()),
            (2, Some(client)) => {
                let length = random.below(300_000) + 1;
                let target = ["read", "parts", "later"][random.below(3)];
                client.send_some(announced(target, length).as_bytes());
            }
            (3 | 4, Some(client)) => {
                client.send_some(&vec![b'c'; random.below(100_000)]);
            }
            (5, Some(client)) => {
                client.send_some(get("/big/200000").as_bytes());
            }
            (6, Some(client)) => drop(client.take_bytes()),
            (_, Some(_)) => drop(clients.swap_remove(index)),
        }
        now_ms.fetch_add(random.below(400) as u64, Ordering::Relaxed);
        server.settle();
        let held = server.worker.held_bytes();
        assert!(held <= 2 * MIB as u64, "{held}");
    }
    drop(clients);
    server.settle();
    now_ms.fetch_add(100_000, Ordering::Relaxed);
    server.settle();
    assert_eq!(server.worker.held_bytes(), 0);
}
