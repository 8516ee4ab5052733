//! Load over TLS: exact counts, what is verified, and why handshakes fail.

mod fixture;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fixture::h2::{Peer, h2_plan};
use fixture::{
    OK, expecting, open_plan, outcome, plan, plan_of, read_request, server, server_of_many,
};
use load::generator::{
    Address, ErrorClass, Expectation, Limit, Plan, Report, Request, Shape, Tls, run,
};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{
    RootCertStore, ServerConfig, ServerConnection, StreamOwned, SupportedProtocolVersion, version,
};

type Stream = StreamOwned<ServerConnection, TcpStream>;

/// A self-signed certificate for "localhost", and its key, in PEM.
fn made(change: impl FnOnce(&mut CertificateParams)) -> (String, String) {
    let mut parameters = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
    change(&mut parameters);
    let key = KeyPair::generate().expect("a key");
    let certificate = parameters.self_signed(&key).expect("a certificate");
    (certificate.pem(), key.serialize_pem())
}

/// Writes a file to the target folder's `tmp`.
fn file(text: &str) -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("bolide-load-tls-{}-{number}.pem", std::process::id());
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, text).expect("a file");
    path
}

fn config(
    (certificate, key): &(String, String),
    versions: &[&'static SupportedProtocolVersion],
    clients: Option<&str>,
) -> Arc<ServerConfig> {
    let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).expect("PEM")];
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("PEM");
    let builder = ServerConfig::builder_with_protocol_versions(versions);
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(authority) => {
            let mut roots = RootCertStore::empty();
            let der = CertificateDer::from_pem_slice(authority.as_bytes()).expect("PEM");
            roots.add(der).expect("an authority");
            let verifier = WebPkiClientVerifier::builder(Arc::new(roots)).build();
            builder.with_client_cert_verifier(verifier.expect("a verifier"))
        }
    };
    Arc::new(builder.with_single_cert(chain, key).expect("a pair"))
}

fn secure(
    config: Arc<ServerConfig>,
    behave: impl Fn(&mut Stream) + Send + Sync + 'static,
) -> Address {
    server_of_many(move |socket| {
        let connection = ServerConnection::new(Arc::clone(&config)).expect("a connection");
        let mut stream = StreamOwned::new(connection, socket);
        behave(&mut stream);
        stream.conn.send_close_notify();
        let _ = stream.flush();
        // Closing a socket that holds unread bytes would reset the connection, and the alert with it.
        let _ = stream.sock.shutdown(std::net::Shutdown::Write);
        let _ = stream.sock.read_to_end(&mut Vec::new());
    })
}

fn respond(stream: &mut Stream) {
    while read_request(stream) && stream.write_all(OK.as_bytes()).is_ok() {}
}

fn respond_once(stream: &mut Stream) {
    let response = OK.replacen("\r\n", "\r\nConnection: close\r\n", 1);
    let _ = read_request(stream) && stream.write_all(response.as_bytes()).is_ok();
}

/// A server with this certificate, which is trusted.
fn trusted(behave: impl Fn(&mut Stream) + Send + Sync + 'static) -> (Address, Tls) {
    let pair = made(|_| {});
    let address = secure(config(&pair, rustls::DEFAULT_VERSIONS, None), behave);
    (address, tls(Some(&pair.0)))
}

fn tls(authorities: Option<&str>) -> Tls {
    Tls {
        server_name: "localhost".to_owned(),
        authorities: authorities.map(file),
        ..Tls::default()
    }
}

fn over(tls: Tls, plan: Plan) -> Plan {
    Plan {
        tls: Some(tls),
        ..plan
    }
}

fn failures(report: &Report) -> Vec<(&str, u64)> {
    let tls = report.tls.as_ref().expect("TLS");
    tls.failures
        .iter()
        .map(|(name, count)| (name.as_str(), *count))
        .collect()
}

#[test]
fn a_run_whose_certificate_is_never_accepted_ends_early() {
    let (address, _) = trusted(respond);
    let untrusted = tls(Some(&made(|_| {}).0));
    for (connections, threads, rate) in [(5, 1, None), (300, 2, None), (5, 1, Some(1000.0))] {
        let mut asked = over(untrusted.clone(), plan(address.clone(), 0, 1));
        (asked.connections, asked.threads) = (connections, threads);
        asked.limit = Limit::Duration(Duration::from_secs(3600));
        if let Some(rate) = rate {
            asked.shape = Shape::Rate(rate);
        }
        let started = std::time::Instant::now();
        let report = run(&asked).expect("a run");
        assert!(started.elapsed() < Duration::from_secs(30));
        assert_eq!(report.ok, 0);
        let found = report.tls.expect("TLS");
        assert!(found.was_hopeless);
        let refused = found.failures["unknown_issuer"];
        assert!(refused >= (connections as u64).min(100), "{refused}");
    }
}

/// Both requests fail, on a connection each, with this cause.
fn assert_fails(tls: Tls, address: Address, cause: &'static str, text: &str) {
    let mut asked = over(tls, plan(address, 2, 1));
    asked.connections = 2;
    let report = run(&asked).expect("a run");
    let errors: Vec<_> = report.errors.iter().filter(|it| it.1 > 0).collect();
    assert_eq!((report.ok, report.failed), (0, 2), "{cause}: {errors:?}");
    assert_eq!(errors[0].0.name(), "tls", "{cause}");
    assert_eq!(failures(&report), [(cause, 2)]);
    let first = report.tls.expect("TLS").first_failure;
    assert!(first.contains(text), "{cause}: {first}");
}

#[test]
fn every_response_is_counted_in_both_versions() {
    let pair = made(|_| {});
    for (versions, name) in [
        (&[&version::TLS13], "TLS 1.3"),
        (&[&version::TLS12], "TLS 1.2"),
    ] {
        let address = secure(config(&pair, versions, None), respond);
        for (connections, depth, threads) in [(1, 1, 1), (3, 1, 1), (4, 5, 2)] {
            let mut asked = over(tls(Some(&pair.0)), plan(address.clone(), 200, depth));
            (asked.connections, asked.threads) = (connections, threads);
            let report = run(&asked).expect("a run");
            assert_eq!((report.ok, report.failed, report.unfinished), (200, 0, 0));
            assert_eq!(report.bytes_received, 200 * OK.len() as u64);
            let found = report.tls.expect("TLS");
            assert_eq!(found.version, name);
            assert!(found.cipher_suite.starts_with("TLS_"), "{found:?}");
            let handshakes = (found.handshakes_full, found.handshakes_resumed);
            assert_eq!(handshakes, (connections as u64, 0));
            assert!(found.failures.is_empty() && found.first_failure.is_empty());
        }
    }
}

/// A server with this certificate that selects the first of its protocols that the client offers.
fn selecting(
    pair: &(String, String),
    protocols: &[&[u8]],
    behave: impl Fn(&mut Stream) + Send + Sync + 'static,
) -> Address {
    let mut config = (*config(pair, rustls::DEFAULT_VERSIONS, None)).clone();
    config.alpn_protocols = protocols.iter().map(|it| it.to_vec()).collect();
    secure(Arc::new(config), behave)
}

fn respond_on_streams(stream: &mut Stream) {
    let Some(mut peer) = Peer::new(stream, &[]) else {
        return;
    };
    while let Some((stream, _)) = peer.request() {
        peer.respond(stream, b"hi");
    }
}

#[test]
fn http_2_is_selected_in_the_handshake() {
    let pair = made(|_| {});
    let address = selecting(&pair, &[b"h2", b"http/1.1"], respond_on_streams);
    for (connections, streams, threads) in [(1, 1, 1), (4, 5, 2)] {
        let mut asked = over(tls(Some(&pair.0)), h2_plan(address.clone(), 200, streams));
        (asked.connections, asked.threads) = (connections, threads);
        let report = run(&asked).expect("a run");
        assert_eq!(
            (report.ok, report.failed, report.requests_sent),
            (200, 0, 200)
        );
        assert_eq!(report.protocol, "HTTP/2");
        assert_eq!(report.tls.expect("TLS").handshakes_full, connections as u64);
    }
    let mut asked = over(tls(Some(&pair.0)), h2_plan(address, 10, 1));
    asked.is_persistent = false;
    let report = run(&asked).expect("a run");
    assert_eq!((report.ok, report.failed), (10, 0));
    let found = report.tls.expect("TLS");
    assert_eq!((found.handshakes_full, found.handshakes_resumed), (1, 9));
}

#[test]
fn a_server_without_http_2_is_called_so() {
    let pair = made(|_| {});
    for (protocols, cause, text) in [
        (
            &[][..],
            "no_http2",
            "the server selected no protocol (ALPN)",
        ),
        (
            &[&b"http/1.1"[..]][..],
            "nothing_in_common",
            "the server accepts none of the protocols (ALPN)",
        ),
    ] {
        let address = selecting(&pair, protocols, respond);
        let report = run(&over(tls(Some(&pair.0)), h2_plan(address, 2, 3))).expect("a run");
        assert_eq!((report.ok, report.errors.get(ErrorClass::Tls)), (0, 2));
        assert_eq!(failures(&report), [(cause, 2)]);
        let first = report.tls.expect("TLS").first_failure;
        assert!(first.contains(text), "{first}");
    }
}

#[test]
fn sessions_are_resumed_unless_that_is_off() {
    let pair = made(|_| {});
    for versions in [&[&version::TLS13], &[&version::TLS12]] {
        let address = secure(config(&pair, versions, None), respond_once);
        let mut asked = over(tls(Some(&pair.0)), plan(address, 10, 1));
        asked.is_persistent = false;
        for (is_always_full, expected) in [(false, (1, 9)), (true, (10, 0))] {
            asked.tls = Some(Tls {
                is_always_full,
                ..tls(Some(&pair.0))
            });
            let report = run(&asked).expect("a run");
            assert_eq!((report.ok, report.failed), (10, 0));
            let found = report.tls.expect("TLS");
            assert_eq!((found.handshakes_full, found.handshakes_resumed), expected);
            let per_s = (found.handshakes_full_per_s + found.handshakes_resumed_per_s) / 10.0;
            assert!((per_s * report.seconds - 1.0).abs() < 1e-9, "{per_s}");
        }
    }
}

#[test]
fn an_open_loop_opens_its_connections_first() {
    let (address, tls) = trusted(respond);
    let mut asked = over(tls, open_plan(address, 2000.0));
    asked.limit = load::generator::Limit::Requests(300);
    let report = run(&asked).expect("a run");
    assert_eq!((report.ok, report.failed), (300, 0));
    assert_eq!(report.tls.expect("TLS").handshakes_full, 20);
}

#[test]
fn content_of_many_records_arrives_in_both_directions() {
    let content: Vec<u8> = (0..3_000_000_u32).map(|it| (it % 251) as u8).collect();
    let expected = content.clone();
    let (address, tls) = trusted(move |stream| {
        while read_request(stream) {
            let mut received = vec![0; expected.len()];
            if stream.read_exact(&mut received).is_err() || received != expected {
                return;
            }
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n",
                expected.len()
            );
            let response = [head.as_bytes(), &expected].concat();
            if stream.write_all(&response).is_err() {
                return;
            }
        }
    });
    let request = Request {
        content: Some(content.clone()),
        ..expecting(Expectation {
            content: Some(content),
            ..Expectation::default()
        })
    };
    let asked = over(tls, plan_of(address, 6, 1, request));
    assert_eq!(outcome(&asked), (6, Vec::new()));
}

#[test]
fn a_connection_that_ends_inside_a_response_fails_it() {
    let (address, tls) = trusted(|stream| {
        let cut = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc";
        let _ = read_request(stream) && stream.write_all(cut.as_bytes()).is_ok();
    });
    let asked = over(tls, plan(address, 3, 1));
    assert_eq!(outcome(&asked), (0, vec![String::from("early_eof 3")]));
}

#[test]
fn unexpected_bytes_are_detected() {
    let (address, tls) = trusted(|stream| {
        let twice = [OK, OK].concat();
        let _ = read_request(stream) && stream.write_all(twice.as_bytes()).is_ok();
    });
    let asked = over(tls, plan(address, 2, 1));
    assert_eq!(
        outcome(&asked),
        (0, vec![String::from("unexpected_bytes 2")])
    );
}

#[test]
fn a_certificate_of_an_unknown_issuer_is_refused_unless_nothing_is_verified() {
    let (address, _) = trusted(respond);
    let other = made(|it| it.distinguished_name.push(DnType::CommonName, "other")).0;
    let cause = "unknown_issuer";
    assert_fails(
        tls(Some(&other)),
        address.clone(),
        cause,
        "is not issued by a trusted authority",
    );
    let of_that_name = made(|_| {}).0;
    assert_fails(
        tls(Some(&of_that_name)),
        address.clone(),
        cause,
        "is not signed with the key of its issuer",
    );
    assert_eq!(
        outcome(&over(tls(None), plan(address, 5, 1))),
        (5, Vec::new())
    );
}

#[test]
fn a_certificate_for_another_name_is_refused() {
    let (address, trusted) = trusted(respond);
    let other = Tls {
        server_name: "127.0.0.1".to_owned(),
        ..trusted
    };
    assert_fails(other, address, "other_name", "but for localhost");
}

#[test]
fn a_chain_is_verified_with_its_dates() {
    let authority_key = KeyPair::generate().expect("a key");
    let mut parameters = CertificateParams::new(Vec::new()).expect("no name");
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = parameters
        .self_signed(&authority_key)
        .expect("an authority");
    let issuer = rcgen::Issuer::new(parameters, authority_key);
    let day = rcgen::date_time_ymd;
    for (from, to, cause, text) in [
        (day(2020, 1, 1), day(2021, 1, 1), "expired", "expired"),
        (
            day(2090, 1, 1),
            day(2091, 1, 1),
            "not_yet_valid",
            "is valid only in ",
        ),
        (day(2020, 1, 1), day(2091, 1, 1), "", ""),
    ] {
        let mut parameters = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
        (parameters.not_before, parameters.not_after) = (from, to);
        let key = KeyPair::generate().expect("a key");
        let certificate = parameters.signed_by(&key, &issuer).expect("a certificate");
        let pair = (certificate.pem(), key.serialize_pem());
        let address = secure(config(&pair, rustls::DEFAULT_VERSIONS, None), respond);
        match cause {
            "" => {
                let asked = over(tls(Some(&authority.pem())), plan(address, 5, 1));
                assert_eq!(outcome(&asked), (5, Vec::new()));
            }
            cause => assert_fails(tls(Some(&authority.pem())), address, cause, text),
        }
    }
}

#[test]
fn a_self_signed_authority_is_trusted_as_a_server_if_it_is_given() {
    let pair = made(|it| it.is_ca = IsCa::Ca(BasicConstraints::Unconstrained));
    let address = secure(config(&pair, rustls::DEFAULT_VERSIONS, None), respond);
    let asked = over(tls(Some(&pair.0)), plan(address.clone(), 5, 1));
    assert_eq!(outcome(&asked), (5, Vec::new()));
    let other = made(|it| it.distinguished_name.push(DnType::CommonName, "other")).0;
    assert_fails(
        tls(Some(&other)),
        address,
        "unknown_issuer",
        "is not issued by a trusted authority",
    );
}

#[test]
fn the_dates_of_a_certificate_that_is_given_itself_are_verified() {
    let day = rcgen::date_time_ymd;
    for (from, to, cause, text) in [
        (day(2020, 1, 1), day(2021, 1, 1), "expired", "expired"),
        (
            day(2090, 1, 1),
            day(2091, 1, 1),
            "not_yet_valid",
            "is valid only in ",
        ),
    ] {
        let pair = made(|it| (it.not_before, it.not_after) = (from, to));
        let address = secure(config(&pair, rustls::DEFAULT_VERSIONS, None), respond);
        assert_fails(tls(Some(&pair.0)), address, cause, text);
    }
}

#[test]
fn a_client_presents_its_certificate() {
    let (pair, client) = (made(|_| {}), made(|_| {}));
    for versions in [&[&version::TLS13], &[&version::TLS12]] {
        let address = secure(config(&pair, versions, Some(&client.0)), respond);
        let presenting = Tls {
            pair: Some((file(&client.0), file(&client.1))),
            ..tls(Some(&pair.0))
        };
        assert_eq!(
            outcome(&over(presenting, plan(address, 5, 1))),
            (5, Vec::new())
        );
    }
    let address = secure(config(&pair, &[&version::TLS13], Some(&client.0)), respond);
    let text = "the server requires a certificate";
    assert_fails(tls(Some(&pair.0)), address, "certificate_required", text);
}

#[test]
fn what_is_not_tls_is_called_so() {
    let address = server(|mut stream| {
        let _ = stream.read(&mut [0; 2000]);
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    });
    assert_fails(
        tls(None),
        address,
        "not_tls",
        "what the server sent is not TLS",
    );
    let address = server(|mut stream| {
        let _ = stream.read(&mut [0; 2000]);
    });
    assert_fails(tls(None), address, "ended", "");
    let (address, trusted) = trusted(respond);
    let older = Tls {
        is_tls12_only: true,
        ..trusted
    };
    assert_eq!(outcome(&over(older, plan(address, 2, 1))), (2, Vec::new()));
    let pair = made(|_| {});
    let newer = secure(config(&pair, &[&version::TLS13], None), respond);
    let older = Tls {
        is_tls12_only: true,
        ..tls(None)
    };
    assert_fails(
        older,
        newer,
        "nothing_in_common",
        "the server accepts none of the versions of TLS",
    );
}

#[test]
fn a_handshake_that_the_server_leaves_unfinished_is_a_timeout() {
    let kept = std::sync::Mutex::new(Vec::new());
    let address = server(move |stream| kept.lock().expect("a lock").push(stream));
    let mut asked = over(tls(None), plan(address, 2, 1));
    asked.timeout = Duration::from_millis(50);
    assert_eq!(outcome(&asked), (0, vec![String::from("timeout 2")]));
}

#[test]
fn the_latency_of_a_request_that_is_sent_again_includes_the_next_handshake() {
    let count = AtomicU64::new(0);
    let (address, tls) = trusted(move |stream| {
        if count.fetch_add(1, Ordering::Relaxed) > 0 {
            std::thread::sleep(Duration::from_millis(300));
        }
        respond_once(stream);
    });
    let report = run(&over(tls, plan(address, 2, 2))).expect("a run");
    assert_eq!((report.ok, report.requeued), (2, 1));
    assert!(report.latency_us.max > 300_000.0, "{report:?}");
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let (address, trusted) = trusted(respond);
    let refusal = |tls: Tls| {
        let refused = run(&over(tls, plan(address.clone(), 1, 1))).expect_err("a refusal");
        assert_eq!(refused.kind(), std::io::ErrorKind::InvalidInput);
        refused.to_string()
    };
    let missing = Tls {
        authorities: Some("/nonexistent/roots.pem".into()),
        ..trusted.clone()
    };
    assert_eq!(
        refusal(missing),
        "--cacert: cannot read /nonexistent/roots.pem: No such file or directory"
    );
    let authorities = tls(Some("no certificate"));
    let path = authorities.authorities.clone().expect("a file");
    let text = format!("--cacert: {} has no certificate in PEM", path.display());
    assert_eq!(refusal(authorities), text);
    let (pair, other) = (made(|_| {}), made(|_| {}));
    let (certificate, empty) = (file(&pair.0), file("no key"));
    let shown = |path: &std::path::Path| path.display().to_string();
    for (key, text) in [
        (
            empty.clone(),
            format!(
                "--key: {} has no key in PEM without a password",
                shown(&empty)
            ),
        ),
        (
            certificate.clone(),
            format!(
                "--cert: {} has no key in PEM without a password; give the file of its key with --key",
                shown(&certificate)
            ),
        ),
        {
            let key = file(&other.1);
            let text = format!(
                "--key: {} is not the key of the certificate {}; give its own",
                shown(&key),
                shown(&certificate)
            );
            (key, text)
        },
    ] {
        let given = Tls {
            pair: Some((certificate.clone(), key)),
            ..trusted.clone()
        };
        assert_eq!(refusal(given), text);
    }
    let nameless = Tls {
        server_name: "a b".to_owned(),
        ..trusted
    };
    assert_eq!(refusal(nameless), "\"a b\" is not the name of a server");
}
