//! HTTP/2: exact counts, what a session sends, and what of the server it detects.

mod fixture;

use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use fixture::h2::{Peer, Seen, h2_plan, peers};
use fixture::{outcome, server};
use load::generator::{Address, ErrorClass, Expectation, Limit, Plan, Request, Shape, run};
use wire::h2::frame::{push_data, push_goaway, push_headers, push_ping, push_reset, push_settings};
use wire::h2::{ErrorCode, FRAME_BYTES_MAX, settings};

fn respond(peer: &mut Peer<TcpStream>) {
    while let Some((stream, _)) = peer.request() {
        if !peer.respond(stream, b"hi") {
            return;
        }
    }
}

fn none() -> Vec<String> {
    Vec::new()
}

#[test]
fn requests_and_responses_are_counted() {
    let report = run(&h2_plan(peers(&[], respond), 1000, 7)).expect("a run");
    assert_eq!(
        (report.ok, report.failed, report.requests_sent),
        (1000, 0, 1000)
    );
    assert_eq!(
        report.statuses.into_iter().collect::<Vec<_>>(),
        [(200, 1000)]
    );
    assert_eq!(report.content_bytes_received, 2000);
    assert_eq!(
        (report.connections_opened, report.first_content_bytes),
        (1, 2)
    );
    assert_eq!(report.server_software, "scripted");
}

#[test]
fn responses_belong_to_their_streams_in_any_order() {
    let address = peers(&[], |peer| {
        let mut waiting = Vec::new();
        while let Some((stream, target)) = peer.request() {
            waiting.push((stream, target));
            // The first is alone, because the settings were not known.
            if waiting.len() == 4 || stream == 1 {
                for (stream, target) in waiting.drain(..).rev() {
                    peer.respond(stream, target.as_bytes());
                }
            }
        }
    });
    let mut asked = h2_plan(address, 1 + 4 * 50, 4);
    asked.requests = ["/a", "/bb", "/ccc"]
        .map(|target| Request {
            target: target.into(),
            expected: Expectation {
                content: Some(target.into()),
                ..Expectation::default()
            },
            ..Request::default()
        })
        .into();
    assert_eq!(outcome(&asked), (201, none()));
}

#[test]
fn the_servers_limit_of_streams_is_respected() {
    static MOST: AtomicUsize = AtomicUsize::new(0);
    let address = peers(&[(settings::MAX_CONCURRENT_STREAMS, 3)], |peer| {
        let mut waiting = Vec::new();
        while let Some((stream, _)) = peer.request() {
            waiting.push(stream);
            MOST.fetch_max(waiting.len(), Ordering::Relaxed);
            if waiting.len() == 3 || stream == 1 {
                waiting.drain(..).for_each(|it| {
                    peer.respond(it, b"hi");
                });
            }
        }
    });
    let report = run(&h2_plan(address, 100, 50)).expect("a run");
    assert_eq!((report.ok, report.failed), (100, 0));
    assert_eq!(MOST.load(Ordering::Relaxed), 3);
    assert_eq!(report.streams_allowed, Some(3));
}

#[test]
fn a_repeated_request_is_a_few_octets() {
    let (sender, receiver) = mpsc::channel();
    let address = server(move |stream| {
        let mut peer = Peer::new(stream, &[]).expect("a preface");
        while let Some(seen) = peer.next() {
            if let Seen::Head { stream, .. } = seen {
                peer.respond(stream, b"hi");
            }
            sender.send(seen).expect("a test");
        }
    });
    let mut asked = h2_plan(address, 10, 1);
    asked.requests[0].host = "example.com".into();
    asked.requests[0].field_lines = vec![("X-Mine".into(), "a value".into())];
    assert_eq!(outcome(&asked), (10, none()));
    let heads: Vec<(u32, String, usize)> = receiver
        .try_iter()
        .filter_map(|seen| match seen {
            Seen::Head {
                stream,
                text,
                block_bytes,
                ..
            } => Some((stream, text, block_bytes)),
            _ => None,
        })
        .collect();
    let text = "GET / HTTP/2.0\r\nHost: example.com\r\nx-mine: a value\r\n\r\n";
    for (number, (stream, head, block_bytes)) in heads.iter().enumerate() {
        assert_eq!((*stream as usize, head.as_str()), (2 * number + 1, text));
        // Four pseudo-header fields and the other one.
        assert!(number < 2 || *block_bytes == 5, "{number}: {block_bytes}");
    }
    assert_eq!(heads.len(), 10);
}

#[test]
fn the_preface_opens_large_windows_and_refuses_pushes() {
    let (sender, receiver) = mpsc::channel();
    let address = server(move |stream| {
        let mut peer = Peer::new(stream, &[]).expect("a preface");
        while let Some(seen) = peer.next() {
            if let Seen::Head { stream, .. } = seen {
                peer.send(|out| push_ping(out, *b"abcdefgh"));
                peer.respond(stream, b"hi");
            }
            sender.send(seen).expect("a test");
        }
    });
    assert_eq!(outcome(&h2_plan(address, 2, 1)), (2, none()));
    let seen: Vec<Seen> = receiver.try_iter().collect();
    let settings = vec![
        (settings::ENABLE_PUSH, 0),
        (settings::INITIAL_WINDOW_SIZE, 1 << 30),
    ];
    assert_eq!(seen[0], Seen::Settings(settings));
    assert_eq!(seen[1], Seen::WindowUpdate(0, (1 << 30) - 65_535));
    assert!(seen.contains(&Seen::SettingsAck));
    assert!(seen.contains(&Seen::Pong(*b"abcdefgh")));
}

fn upload(address: Address, requests: u64, streams: u32, bytes: usize) -> Plan {
    let mut asked = h2_plan(address, requests, streams);
    asked.requests[0].method = "POST".into();
    asked.requests[0].content = Some((0..bytes).map(|at| at as u8).collect());
    asked
}

#[test]
fn content_waits_for_the_servers_windows() {
    let address = peers(&[(settings::INITIAL_WINDOW_SIZE, 1000)], |peer| {
        let mut received = Vec::new();
        while let Some(seen) = peer.next() {
            match seen {
                Seen::Head { text, is_last, .. } => {
                    assert!(text.contains("content-length: 20000\r\n") && !is_last);
                    received.clear();
                }
                Seen::Content {
                    stream,
                    content,
                    is_last,
                } => {
                    // The first was sent before the settings were known.
                    assert!(stream == 1 || content.len() <= 1000);
                    received.extend_from_slice(&content);
                    peer.give(0, content.len() as u32);
                    if is_last {
                        assert!(received.iter().enumerate().all(|(at, it)| *it == at as u8));
                        assert_eq!(received.len(), 20_000);
                        peer.respond(stream, b"hi");
                    } else {
                        peer.give(stream, content.len() as u32);
                    }
                }
                _ => {}
            }
        }
    });
    assert_eq!(outcome(&upload(address, 3, 1, 20_000)), (3, none()));
}

#[test]
fn a_reset_stream_is_a_class_of_its_own_and_ends_nothing_else() {
    let address = peers(&[], |peer| {
        while let Some((stream, _)) = peer.request() {
            match stream % 4 {
                1 => peer.respond(stream, b"hi"),
                _ => peer.send(|out| push_reset(out, stream, ErrorCode::REFUSED_STREAM)),
            };
        }
    });
    let report = run(&h2_plan(address, 100, 3)).expect("a run");
    assert_eq!((report.ok, report.failed), (50, 50));
    assert_eq!(
        report
            .errors
            .iter()
            .find(|it| it.1 > 0)
            .map(|it| it.0.name()),
        Some("stream_reset")
    );
    assert_eq!(report.connections_opened, 1);
}

#[test]
fn requests_after_a_goaway_are_sent_on_the_next_connection() {
    let address = peers(&[], |peer| {
        for _ in 0..10 {
            let Some((stream, _)) = peer.request() else {
                return;
            };
            peer.respond(stream, b"hi");
        }
        peer.send(|out| push_goaway(out, 19, ErrorCode::NO_ERROR, ""));
    });
    let report = run(&h2_plan(address, 100, 4)).expect("a run");
    assert_eq!((report.ok, report.failed), (100, 0), "{report:?}");
    assert_eq!(report.connections_opened, 10);
}

#[test]
fn a_goaway_instead_of_any_response_is_a_failure() {
    let address = peers(&[], |peer| {
        peer.request();
        peer.send(|out| push_goaway(out, 0, ErrorCode::NO_ERROR, ""));
    });
    assert_eq!(
        outcome(&h2_plan(address, 3, 1)),
        (0, vec!["goaway 3".into()])
    );
}

/// The class in which the first response fails if `behave` sends it.
fn first(behave: impl Fn(&mut Peer<TcpStream>, u32) + Send + Sync + 'static) -> (Vec<String>, u64) {
    let address = peers(&[], move |peer| {
        if let Some((stream, _)) = peer.request() {
            behave(peer, stream);
            respond(peer);
        }
    });
    let mut asked = h2_plan(address, 1, 1);
    asked.timeout = Duration::from_millis(300);
    let report = run(&asked).expect("a run");
    let failed = report.errors.iter().filter(|(_, count)| *count > 0);
    let failed = failed.map(|(class, count)| format!("{} {count}", class.name()));
    (failed.collect(), report.ok)
}

#[test]
fn what_a_response_must_not_be_is_detected() {
    let more = first(|peer, stream| {
        peer.head(stream, 200, "", Some(2), false);
        peer.send(|out| push_data(out, stream, b"more", true));
    });
    assert_eq!(more, (vec!["malformed 1".into()], 0));
    let less = first(|peer, stream| {
        peer.head(stream, 200, "", Some(9), false);
        peer.send(|out| push_data(out, stream, b"less", true));
    });
    assert_eq!(less, (vec!["malformed 1".into()], 0));
    let unending = first(|peer, stream| {
        peer.head(stream, 200, "", None, false);
        peer.send(|out| push_data(out, stream, b"part", false));
    });
    assert_eq!(unending, (vec!["timeout 1".into()], 0));
    let headless = first(|peer, stream| {
        peer.send(|out| push_data(out, stream, b"hi", true));
    });
    assert_eq!(headless, (vec!["malformed 1".into()], 0));
    let undecodable = first(|peer, stream| {
        peer.send(|out| {
            push_headers(out, stream, true, FRAME_BYTES_MAX, |out| out.push(0xff));
        });
    });
    assert_eq!(undecodable, (vec!["malformed 1".into()], 0));
    let wrong = first(|peer, stream| {
        peer.head(stream, 500, "", None, true);
    });
    assert_eq!(wrong, (vec!["wrong_status 1".into()], 0));
    let unopened = first(|peer, stream| {
        peer.respond(stream + 2, b"hi");
    });
    assert_eq!(unopened, (vec!["unexpected_bytes 1".into()], 0));
    let interim = first(|peer, stream| {
        peer.head(stream, 103, "link: </a>\r\n", None, false);
        peer.head(stream, 200, "", None, false);
        peer.head(stream, 200, "", None, true);
    });
    assert_eq!(interim, (vec!["malformed 1".into()], 0));
}

#[test]
fn a_response_that_is_sent_twice_ends_the_connection() {
    let address = peers(&[], |peer| {
        while let Some((stream, _)) = peer.request() {
            peer.respond(stream, b"hi");
            if stream == 9 {
                peer.respond(stream, b"hi");
            }
        }
    });
    let (ok, failed) = outcome(&h2_plan(address, 50, 1));
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert!(failed[0].starts_with("unexpected_bytes "), "{failed:?}");
    assert!(ok >= 40, "{ok}");
}

#[test]
fn settings_apply_to_streams_that_are_open() {
    // No room at all, until the settings change.
    let address = peers(&[(settings::INITIAL_WINDOW_SIZE, 0)], |peer| {
        let mut is_open = false;
        while let Some(seen) = peer.next() {
            match seen {
                Seen::Head { .. } if !is_open => {
                    is_open = true;
                    let more = [(settings::INITIAL_WINDOW_SIZE, 100_000)];
                    peer.send(|out| push_settings(out, &more));
                    peer.give(0, 1_000_000);
                }
                Seen::Content {
                    stream, is_last, ..
                } if is_last => {
                    peer.respond(stream, b"hi");
                }
                _ => {}
            }
        }
    });
    assert_eq!(outcome(&upload(address, 5, 1, 90_000)), (5, none()));
}

#[test]
fn an_early_response_to_an_upload_is_a_failure() {
    let address = peers(&[], |peer| {
        while let Some(seen) = peer.next() {
            if let Seen::Head { stream, .. } = seen {
                peer.respond(stream, b"hi");
            }
        }
    });
    let asked = upload(address, 3, 1, 500_000);
    assert_eq!(outcome(&asked), (0, vec!["early_response 3".into()]));
}

#[test]
fn a_late_response_fails_alone() {
    let address = peers(&[], |peer| {
        while let Some((stream, target)) = peer.request() {
            if target == "/" {
                peer.respond(stream, b"hi");
            }
        }
    });
    let mut asked = h2_plan(address, 1, 4);
    asked.requests.push(Request {
        target: "/never".into(),
        ..Request::default()
    });
    asked.requests[0].weight = 2000;
    asked.limit = Limit::Duration(Duration::from_millis(700));
    asked.timeout = Duration::from_millis(100);
    let report = run(&asked).expect("a run");
    assert!(report.ok > 2000, "{}", report.ok);
    assert_eq!(report.failed, report.errors.get(ErrorClass::Timeout));
    assert!(
        report.failed > 0 && report.connections_opened == 1,
        "{report:?}"
    );
}

#[test]
fn a_silent_connection_fails_as_a_whole() {
    let address = peers(&[], |peer| {
        if let Some((stream, _)) = peer.request() {
            peer.respond(stream, b"hi");
        }
    });
    let mut asked = h2_plan(address, 9, 4);
    asked.timeout = Duration::from_millis(100);
    let report = run(&asked).expect("a run");
    assert_eq!((report.ok, report.errors.get(ErrorClass::Timeout)), (2, 7));
    assert_eq!(report.connections_opened, 2);
}

#[test]
fn an_open_loop_counts_from_the_schedule() {
    let address = peers(&[], respond);
    let mut asked = h2_plan(address, 500, 8);
    asked.shape = Shape::Rate(2000.0);
    asked.connections = 3;
    let report = run(&asked).expect("a run");
    assert_eq!((report.ok, report.failed, report.unfinished), (500, 0, 0));
    assert_eq!((report.connections_opened, report.requests_sent), (3, 500));
    assert!(report.uncorrected_latency_us.is_some() && report.offered_per_s.is_some());
}

#[test]
fn a_stall_delays_every_request_that_was_due() {
    let address = peers(&[], |peer| {
        let mut has_stalled = false;
        while let Some((stream, _)) = peer.request() {
            if stream > 200 && !has_stalled {
                has_stalled = true;
                std::thread::sleep(Duration::from_millis(300));
            }
            peer.respond(stream, b"hi");
        }
    });
    let mut asked = h2_plan(address, 1000, 4);
    asked.shape = Shape::Rate(1000.0);
    let report = run(&asked).expect("a run");
    assert_eq!((report.ok, report.failed), (1000, 0));
    // 300 requests became due meanwhile, and waited 150 ms in the mean.
    assert!(report.latency_us.p75 > 50_000.0, "{:?}", report.latency_us);
    let sent = report.uncorrected_latency_us.expect("an open loop");
    assert!(sent.p75 < report.latency_us.p75, "{sent:?}");
}

#[test]
fn a_connection_serves_one_request_if_it_does_not_persist() {
    let mut asked = h2_plan(peers(&[], respond), 20, 1);
    asked.is_persistent = false;
    asked.connections = 2;
    let report = run(&asked).expect("a run");
    assert_eq!(
        (report.ok, report.failed, report.connections_opened),
        (20, 0, 20)
    );
}

#[test]
fn an_error_of_a_goaway_is_a_failure() {
    let address = peers(&[], |peer| {
        if let Some((stream, _)) = peer.request() {
            peer.respond(stream, b"hi");
            peer.request();
            peer.send(|out| push_goaway(out, 1, ErrorCode::INTERNAL_ERROR, "a reason"));
        }
    });
    assert_eq!(
        outcome(&h2_plan(address, 6, 1)),
        (3, vec!["goaway 3".into()])
    );
}

#[test]
fn content_that_is_not_announced_is_judged_by_its_length_and_bytes() {
    let address = peers(&[], |peer| {
        while let Some((stream, _)) = peer.request() {
            peer.head(stream, 200, "", None, false);
            let content: &[u8] = match stream % 6 {
                1 => b"abcdef",
                3 => b"abcdefg",
                _ => b"abcdeX",
            };
            for part in content.chunks(2) {
                peer.send(|out| push_data(out, stream, part, false));
            }
            // A trailer section ends it.
            peer.trailers(stream, "x-sum: 1\r\n");
        }
    });
    let mut asked = h2_plan(address, 30, 1);
    asked.requests[0].expected.content = Some(b"abcdef".to_vec());
    let expected = vec!["long 10".to_owned(), "wrong_body 10".to_owned()];
    assert_eq!(outcome(&asked), (10, expected));
}

#[test]
fn the_first_response_is_the_template() {
    let address = peers(&[], |peer| {
        while let Some((stream, _)) = peer.request() {
            let section = format!("date: {stream}\r\nx-kind: {}\r\n", u8::from(stream == 7));
            peer.head(stream, 200, &section, Some(2), false);
            let content: &[u8] = if stream == 9 { b"ho" } else { b"hi" };
            peer.send(|out| push_data(out, stream, content, true));
        }
    });
    let mut asked = h2_plan(address, 10, 1);
    asked.requests[0].expected.is_template = true;
    assert_eq!(outcome(&asked), (8, vec!["wrong_body 2".into()]));
}

#[test]
fn a_response_without_content_has_none_whatever_its_length_says() {
    let address = peers(&[], |peer| {
        while let Some((stream, _)) = peer.request() {
            peer.head(stream, 200, "", Some(1000), true);
        }
    });
    let mut asked = h2_plan(address, 5, 1);
    asked.requests[0].method = "HEAD".into();
    assert_eq!(outcome(&asked), (5, none()));
}

#[test]
fn long_heads_and_contents_arrive_in_many_frames() {
    let address = peers(&[], |peer| {
        let content: Vec<u8> = (0..300_000_u32).map(|at| at as u8).collect();
        while let Some((stream, _)) = peer.request() {
            let section = format!("x-long: {}\r\n", "v".repeat(30_000));
            peer.head(stream, 200, &section, Some(300_000), false);
            for part in content.chunks(FRAME_BYTES_MAX) {
                peer.send(|out| push_data(out, stream, part, false));
            }
            peer.send(|out| push_data(out, stream, b"", true));
        }
    });
    let mut asked = h2_plan(address, 6, 3);
    asked.requests[0].expected.content = Some((0..300_000_u32).map(|at| at as u8).collect());
    assert_eq!(outcome(&asked), (6, none()));
}

#[test]
fn a_window_that_was_not_given_is_not_used() {
    // Far more than the windows of the server, on many streams at once.
    let address = peers(&[(settings::MAX_CONCURRENT_STREAMS, 10)], |peer| {
        let mut received = 0;
        while let Some(seen) = peer.next() {
            if let Seen::Content {
                stream,
                content,
                is_last,
            } = seen
            {
                received += content.len();
                assert!(received <= 65_535, "{received}");
                if received == 65_535 {
                    received = 0;
                    peer.give(0, 65_535);
                }
                peer.give(stream, content.len() as u32 + u32::from(content.is_empty()));
                if is_last {
                    peer.respond(stream, b"hi");
                }
            }
        }
    });
    // The total is a multiple of the connection's window.
    assert_eq!(outcome(&upload(address, 20, 10, 65_535)), (20, none()));
}

#[test]
fn the_same_block_has_another_meaning_when_the_table_has_changed() {
    let address = peers(&[], |peer| {
        while let Some((stream, _)) = peer.request() {
            // The newest entry, which these two insert: `:status`.
            let block: &[u8] = match stream {
                1 => b"\x48\x03200",
                7 => b"\x48\x03500",
                _ => b"\xbe",
            };
            peer.send(|out| {
                push_headers(out, stream, true, FRAME_BYTES_MAX, |out| {
                    out.extend_from_slice(block);
                });
            });
        }
    });
    let expected = (3, vec!["wrong_status 7".to_owned()]);
    assert_eq!(outcome(&h2_plan(address, 10, 1)), expected);
}
