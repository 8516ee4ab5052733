//! Accepting connections: spread over the workers that share a listener, and all that wait when a drain starts.

mod harness;

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use harness::tls::{TlsClient, configs};
use harness::{Client, PATIENCE, Server, get};
use net::{LATE_AFTER_MS, Siblings};

/// Workers that share one listener. The test decides which of them runs when.
struct Workers {
    servers: Vec<Server>,
    siblings: Siblings,
    listener: TcpListener,
}

impl Workers {
    fn new(count: usize, connections_max: u64) -> Workers {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let siblings = Siblings::new(count).expect("memory");
        let mut workers = Workers {
            servers: Vec::new(),
            siblings,
            listener,
        };
        for index in 0..count {
            let server = Server::with(|config| config.limits.connections_max = connections_max);
            workers.take_in(server, index);
        }
        workers
    }

    fn take_in(&mut self, mut server: Server, index: usize) {
        let seat = self.siblings.seat(index).expect("a seat for each");
        server.worker.join(seat).expect("an epoll set");
        let socket = self.listener.try_clone().expect("a descriptor");
        let watched = server.worker.add_listener(socket.into(), 128, None);
        watched.expect("an epoll set");
        self.servers.push(server);
    }

    fn connect(&self) -> Client {
        connect(self.listener.local_addr().expect("a bound socket"))
    }

    fn open(&self) -> Vec<usize> {
        let open = |server: &Server| server.worker.open_connections().load(Ordering::Relaxed);
        self.servers.iter().map(open).collect()
    }

    /// Runs the workers in `runs` until `count` connections are open.
    fn pass_until_open(&mut self, count: usize, runs: &[usize]) {
        let end = Instant::now() + PATIENCE;
        while self.open().iter().sum::<usize>() != count {
            assert!(Instant::now() < end, "{:?} are open", self.open());
            for index in runs {
                self.servers[*index].pass_within(1);
            }
        }
    }
}

fn connect(address: SocketAddr) -> Client {
    Client::new(
        TcpStream::connect(address)
            .expect("a listening socket")
            .into(),
    )
}

fn listen(backlog: i32) -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    rustix::net::listen(&listener, backlog).expect("a bound socket");
    let address = listener.local_addr().expect("a bound socket");
    (listener, address)
}

#[test]
fn connections_that_come_at_once_are_spread() {
    let mut workers = Workers::new(4, 1000);
    let clients: Vec<Client> = (0..16).map(|_| workers.connect()).collect();
    workers.pass_until_open(16, &[0, 1, 2, 3]);
    assert!(
        workers.open().iter().all(|open| (3..=5).contains(open)),
        "{:?}",
        workers.open()
    );
    drop(clients);
}

#[test]
fn connections_that_come_one_by_one_are_spread() {
    let mut workers = Workers::new(4, 1000);
    let mut clients = Vec::new();
    for count in 1..=40 {
        clients.push(workers.connect());
        workers.pass_until_open(count, &[0, 1, 2, 3]);
        let open = workers.open();
        let (fewest, most) = (open.iter().min().unwrap(), open.iter().max().unwrap());
        assert!(most - fewest <= 2 + fewest / 8, "{open:?}");
    }
}

#[test]
fn a_worker_in_a_long_call_gets_none_and_catches_up_after_it() {
    let mut workers = Workers::new(3, 1000);
    let mut clients: Vec<Client> = (0..9).map(|_| workers.connect()).collect();
    workers.pass_until_open(9, &[0, 1, 2]);
    // The first worker does not run: it is asked once, and the others wait for it once.
    let before = workers.open();
    let began = Instant::now();
    for count in 10..=30 {
        clients.push(workers.connect());
        workers.pass_until_open(count, &[1, 2]);
    }
    assert!(began.elapsed() >= Duration::from_millis(LATE_AFTER_MS) || before[0] >= 3);
    let (open, last) = (workers.open(), 31..=40);
    assert_eq!(open[0], before[0]);
    assert!(open[1].abs_diff(open[2]) <= 3, "{open:?}");
    for count in last {
        clients.push(workers.connect());
        workers.pass_until_open(count, &[0, 1, 2]);
    }
    assert!(
        workers.open()[0] >= before[0] + 6,
        "{:?} after {open:?}",
        workers.open()
    );
}

#[test]
fn a_full_worker_leaves_connections_to_the_others_and_refuses_only_when_all_are_full() {
    let mut workers = Workers::new(2, 10);
    let mut clients: Vec<Client> = (0..20).map(|_| workers.connect()).collect();
    workers.pass_until_open(20, &[0, 1]);
    assert_eq!(workers.open(), [10, 10]);
    let mut surplus = workers.connect();
    let end = Instant::now() + PATIENCE;
    let response = loop {
        assert!(Instant::now() < end);
        workers
            .servers
            .iter_mut()
            .for_each(|server| server.pass_within(1));
        if let Some(response) = surplus.take_response("GET") {
            break response;
        }
    };
    assert_eq!((response.status, response.is_last()), (503, true));
    drop(surplus);
    workers.pass_until_open(20, &[0, 1]);
    // Any worker with room takes the next, even if another one runs first.
    clients.truncate(17);
    workers.pass_until_open(17, &[0, 1]);
    clients.extend((0..3).map(|_| workers.connect()));
    workers.pass_until_open(20, &[0, 1]);
    assert_eq!(workers.open(), [10, 10]);
}

#[test]
fn while_a_worker_has_room_no_connection_is_refused_even_if_it_does_not_accept() {
    let mut workers = Workers::new(2, 3);
    let mut clients: Vec<Client> = (0..4).map(|_| workers.connect()).collect();
    workers.pass_until_open(4, &[0, 1]);
    assert_eq!(workers.open(), [2, 2]);
    clients.extend((0..2).map(|_| workers.connect()));
    for _ in 0..60 {
        workers.servers[0].pass_within(1);
    }
    assert_eq!(workers.open(), [3, 2]);
    // It does not spin, either.
    assert!((0..20).any(|_| {
        workers.servers[0].pass();
        workers.servers[0]
            .worker
            .before_wait()
            .is_some_and(|ms| ms > 0)
    }));
    workers.pass_until_open(6, &[0, 1]);
    clients[4].send(&get("/served"));
    clients[5].send(&get("/served"));
    workers.servers.iter_mut().for_each(Server::settle);
    for client in &mut clients[4..] {
        assert_eq!(client.take_response("GET").unwrap().status, 200);
    }
}

#[test]
fn the_others_accept_what_waits_when_one_ends_or_drains() {
    for ends in [true, false] {
        let mut workers = Workers::new(2, 1000);
        let mut clients: Vec<Client> = (0..6).map(|_| workers.connect()).collect();
        workers.pass_until_open(6, &[0, 1]);
        let gone = workers.open()[0];
        if ends {
            drop(workers.servers.remove(0));
            workers.siblings.clear(0);
        } else {
            workers.servers.remove(0).worker.drain();
        }
        clients.extend((0..20).map(|_| workers.connect()));
        workers.pass_until_open(26 - gone, &[0]);
    }
}

#[test]
fn a_worker_that_replaces_one_that_ended_is_asked_too() {
    let mut workers = Workers::new(2, 1000);
    let mut clients: Vec<Client> = (0..6).map(|_| workers.connect()).collect();
    workers.pass_until_open(6, &[0, 1]);
    drop(workers.servers.remove(1));
    workers.take_in(Server::new(), 1);
    let left = workers.open()[0];
    clients.extend((0..left).map(|_| workers.connect()));
    workers.pass_until_open(2 * left, &[0, 1]);
    assert!(workers.open()[1] + 2 >= left, "{:?}", workers.open());
}

#[test]
fn a_drain_accepts_all_that_wait() {
    let mut server = Server::new();
    let (listener, address) = listen(2000);
    server
        .worker
        .add_listener(listener.into(), 2000, None)
        .unwrap();
    let mut clients: Vec<Client> = (0..1500).map(|_| connect(address)).collect();
    clients
        .iter()
        .for_each(|client| client.send(&get("/waited")));
    server.worker.drain();
    assert!(!server.is_empty());
    server.pass_until(|server| server.is_empty());
    for client in &mut clients {
        assert_eq!(client.take_response("GET").unwrap().content, "/waited");
        assert!(client.is_ended() && !client.was_reset);
    }
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn a_drain_of_a_full_worker_refuses_no_connection() {
    let mut server = Server::with(|config| config.limits.connections_max = 10);
    let (listener, address) = listen(200);
    server
        .worker
        .add_listener(listener.into(), 200, None)
        .unwrap();
    let mut idle: Vec<Client> = (0..10).map(|_| server.connect()).collect();
    let mut clients: Vec<Client> = (0..100).map(|_| connect(address)).collect();
    clients
        .iter()
        .for_each(|client| client.send(&get("/waited")));
    server.worker.drain();
    server.pass_until(|server| server.is_empty());
    for client in &mut clients {
        assert_eq!(client.take_response("GET").unwrap().status, 200);
    }
    assert!(idle.iter_mut().all(Client::is_ended));
}

#[test]
fn new_clients_do_not_delay_the_end_of_a_drain() {
    let mut server = Server::new();
    let (listener, address) = listen(4);
    server
        .worker
        .add_listener(listener.try_clone().unwrap().into(), 4, None)
        .unwrap();
    let clients: Vec<Client> = (0..4).map(|_| connect(address)).collect();
    // Each accepted connection is followed by the next.
    let mut followers = Vec::new();
    server.worker.app.on_call = Some(Box::new(move || {
        let next = connect(address);
        next.send(&get("/next"));
        followers.push(next);
    }));
    clients
        .iter()
        .for_each(|client| client.send(&get("/waited")));
    server.worker.drain();
    server.pass_until(|server| server.is_empty());
    assert!(
        server.targets().len() <= 5,
        "{} were served",
        server.targets().len()
    );
}

/// A client that uses TLS.
struct SecureClient {
    tls: TlsClient,
    socket: OwnedFd,
}

impl SecureClient {
    /// A client that has sent its ClientHello.
    fn connect(address: SocketAddr) -> SecureClient {
        let socket = TcpStream::connect(address).expect("a listening socket");
        socket.set_nonblocking(true).expect("a socket");
        let mut client = SecureClient {
            tls: TlsClient::new(),
            socket: socket.into(),
        };
        client.proceed();
        client
    }

    /// Continues the handshake. Returns whether it is complete.
    fn proceed(&mut self) -> bool {
        self.tls.push(&self.socket);
        self.tls.pull(&self.socket);
        !self.tls.is_handshaking()
    }

    /// Leaves with a reset.
    fn reset(self) {
        let now = Some(Duration::ZERO);
        rustix::net::sockopt::set_socket_linger(&self.socket, now).expect("a socket");
    }
}

/// Handshakes that wait before clients are held off.
const QUEUED_MAX: usize = 10;
/// These, those that were accepted before all of them were known to wait, and one that has the place.
const OPEN_MAX: usize = 18;

/// A server with a listener, where only one client has a place to shake hands, and is silent.
struct Crowded {
    server: Server,
    now_ms: Arc<AtomicU64>,
    address: SocketAddr,
    silent: Vec<SecureClient>,
}

impl Crowded {
    fn new() -> Crowded {
        let (mut server, now_ms) = Server::with_manual_clock(|config| {
            config.limits.connections_max = 2 * QUEUED_MAX as u64;
            config.limits.tls_handshakes_max = 1;
        });
        let (listener, address) = listen(100);
        let tls = Some(Arc::clone(&configs().0));
        let watched = server.worker.add_listener(listener.into(), 100, tls);
        watched.expect("an epoll set");
        let silent = vec![SecureClient::connect(address)];
        server.pass_until(|server| open(server) == 1);
        server.settle();
        Crowded {
            server,
            now_ms,
            address,
            silent,
        }
    }

    /// Connects clients, most of which are held off.
    fn fill(&mut self) -> Vec<SecureClient> {
        let address = self.address;
        let clients = (0..40).map(|_| SecureClient::connect(address)).collect();
        (0..10).for_each(|_| self.server.settle());
        let open = open(&self.server);
        assert!((QUEUED_MAX..=OPEN_MAX).contains(&open), "{open} are open");
        clients
    }

    /// All these complete their handshakes, and leave.
    fn serve(&mut self, mut clients: Vec<SecureClient>) {
        self.server.pass_until(|server| {
            clients.retain_mut(|client| !client.proceed());
            assert!(open(server) <= OPEN_MAX);
            clients.is_empty()
        });
    }
}

fn open(server: &Server) -> usize {
    server.worker.open_connections().load(Ordering::Relaxed)
}

#[test]
fn while_handshakes_wait_further_clients_with_tls_are_held_off_and_others_are_not() {
    let mut it = Crowded::new();
    let (listener, plain) = listen(100);
    let watched = it.server.worker.add_listener(listener.into(), 100, None);
    watched.unwrap();
    let clients = it.fill();
    let before = open(&it.server);
    let response = it.server.ask(&mut connect(plain), &get("/plain"));
    assert_eq!(response.content, "/plain");
    it.server.settle();
    assert!(open(&it.server) <= before + 1);
    let silent = std::mem::take(&mut it.silent);
    it.serve(silent);
    it.serve(clients);
}

#[test]
fn nothing_is_held_off_for_clients_that_have_sent_nothing() {
    let mut it = Crowded::new();
    let idle: Vec<TcpStream> = (0..QUEUED_MAX + 5)
        .map(|_| TcpStream::connect(it.address).expect("a listening socket"))
        .collect();
    it.server
        .pass_until(|server| open(server) == QUEUED_MAX + 6);
    drop(idle);
}

#[test]
fn clients_are_accepted_again_when_those_that_waited_are_gone() {
    for by_reset in [true, false] {
        let mut it = Crowded::new();
        let clients = it.fill();
        let silent = std::mem::take(&mut it.silent);
        if by_reset {
            silent
                .into_iter()
                .chain(clients)
                .for_each(SecureClient::reset);
        } else {
            // Neither moves any more: each is accepted, and ends in its time.
            let now_ms = Arc::clone(&it.now_ms);
            it.server.pass_until(|server| {
                now_ms.fetch_add(1000, Ordering::Relaxed);
                server.settle();
                server.is_empty()
            });
        }
        let last = vec![SecureClient::connect(it.address)];
        it.serve(last);
        assert!(it.server.targets().is_empty());
    }
}

#[test]
fn a_listener_that_is_added_while_clients_are_held_off_is_served_after_that() {
    let mut it = Crowded::new();
    let mut clients = it.fill();
    let (listener, address) = listen(100);
    let tls = Some(Arc::clone(&configs().0));
    let watched = it.server.worker.add_listener(listener.into(), 100, tls);
    watched.unwrap();
    it.server.worker.renew_tls(&configs().0);
    let other = SecureClient::connect(address);
    it.server.settle();
    assert!(open(&it.server) <= OPEN_MAX);
    let silent = std::mem::take(&mut it.silent);
    it.serve(silent);
    clients.push(other);
    it.serve(clients);
}

#[test]
fn a_drain_accepts_clients_that_were_held_off() {
    let mut it = Crowded::new();
    let mut clients = it.fill();
    it.server.worker.drain();
    clients.append(&mut it.silent);
    for client in &mut clients {
        client.tls.offer(get("/waited").as_bytes());
    }
    let now_ms = Arc::clone(&it.now_ms);
    it.server.pass_until(|server| {
        // A drain waits for room.
        now_ms.fetch_add(1, Ordering::Relaxed);
        for client in &mut clients {
            client.proceed();
        }
        server.is_empty()
    });
    let is_served = |it: &SecureClient| it.tls.received.ends_with(b"/waited");
    assert_eq!(clients.iter().filter(|it| is_served(it)).count(), 41);
}

#[test]
fn clients_that_one_worker_holds_off_are_accepted_by_another() {
    let mut workers = Workers::new(2, 1000);
    let (listener, address) = listen(200);
    for (index, server) in workers.servers.iter_mut().enumerate() {
        if index == 0 {
            // Nobody completes a handshake.
            *server = Server::with(|config| {
                config.limits.connections_max = 2 * QUEUED_MAX as u64;
                config.limits.tls_handshakes_max = 0;
            });
            let seat = workers.siblings.seat(0).expect("a seat for each");
            server.worker.join(seat).expect("an epoll set");
        }
        let socket = listener.try_clone().expect("a descriptor");
        let tls = Some(Arc::clone(&configs().0));
        let watched = server.worker.add_listener(socket.into(), 200, tls);
        watched.expect("an epoll set");
    }
    let mut clients: Vec<SecureClient> = Vec::new();
    let mut complete = 0;
    for _ in 0..4 {
        clients.extend((0..25).map(|_| SecureClient::connect(address)));
        let end = Instant::now() + PATIENCE;
        // All but those that the first has accepted.
        while complete + OPEN_MAX < clients.len() {
            assert!(Instant::now() < end, "{complete}, {:?}", workers.open());
            workers.servers.iter_mut().for_each(|it| it.pass_within(1));
            let is_complete = |it: &mut SecureClient| it.proceed();
            complete = clients.iter_mut().map(is_complete).filter(|it| *it).count();
        }
    }
    assert!(workers.open()[0] <= OPEN_MAX, "{:?}", workers.open());
}
