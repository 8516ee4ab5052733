//! Tickets by which clients resume sessions (RFC 8446 section 4.6.1, RFC 5077), at any worker of a server.
//!
//! The supervisor creates one secret before it forks the workers, so all of them, and those that replace them, have it in memory, and it is
//! nowhere else. Time is divided into periods. The keys of each period derive from its secret, and so does the secret of the next one, so
//! every process computes the same keys without communicating. What a period needed is forgotten after the next one, so later knowledge of a
//! process does not open older tickets.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::{hmac, rand};
use rustls::server::ProducesTickets;

use super::resumption;

/// A ticket is accepted in its own period and the next one, so for 6 to 12 hours.
const PERIOD: Duration = Duration::from_secs(6 * 60 * 60);
/// A session with more, because of its client's certificates, has no ticket: a ticket has 65,535 bytes at most (RFC 8446 section 4.6.1), and
/// is sent back in a ClientHello, which has to fit too.
const STATE_BYTES_MAX: usize = 60_000;
const NAME_BYTES: usize = 16;
const SECRET_BYTES: usize = 32;

/// The secret of a server from which the keys of its tickets derive.
pub struct TicketSecret {
    started: Instant,
    period: Duration,
    periods: Mutex<Periods>,
}

/// The keys of the current and of the previous period.
struct Periods {
    number: u64,
    /// Of the current period.
    secret: [u8; SECRET_BYTES],
    current: PeriodKey,
    previous: Option<PeriodKey>,
}

/// What encrypts tickets in one period. The name shows whether a ticket is of that period.
struct PeriodKey {
    name: [u8; NAME_BYTES],
    key: RandomizedNonceKey,
}

impl TicketSecret {
    /// Draws a new secret.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn new() -> Result<TicketSecret, Unspecified> {
        TicketSecret::with_period(PERIOD)
    }

    fn with_period(period: Duration) -> Result<TicketSecret, Unspecified> {
        let mut secret = [0; SECRET_BYTES];
        rand::fill(&mut secret)?;
        Ok(TicketSecret {
            started: Instant::now(),
            period,
            periods: Mutex::new(Periods {
                number: 0,
                current: PeriodKey::of(&secret)?,
                secret,
                previous: None,
            }),
        })
    }

    /// Forgets what belongs to earlier periods, so that new processes do not inherit it.
    pub fn advance(&self) {
        self.at(Instant::now(), |_| ());
    }

    fn at<R>(&self, now: Instant, act: impl FnOnce(&Periods) -> R) -> R {
        let elapsed = now.saturating_duration_since(self.started);
        let number = (elapsed.as_nanos() / self.period.as_nanos().max(1)) as u64;
        let mut periods = self.periods.lock().unwrap_or_else(PoisonError::into_inner);
        periods.advance_to(number);
        act(&periods)
    }

    fn encrypt_at(&self, now: Instant, state: &[u8], context: &[u8]) -> Option<Vec<u8>> {
        self.at(now, |periods| periods.current.encrypt(state, context))
    }

    fn decrypt_at(&self, now: Instant, ticket: &[u8], context: &[u8]) -> Option<Vec<u8>> {
        let (name, sealed) = ticket.split_at_checked(NAME_BYTES)?;
        self.at(now, |periods| {
            let keys = [Some(&periods.current), periods.previous.as_ref()];
            let mut keys = keys.into_iter().flatten();
            keys.find(|key| key.name == name)?.decrypt(sealed, context)
        })
    }
}

impl Periods {
    fn advance_to(&mut self, number: u64) {
        while self.number < number {
            let next = derived(&self.secret, b"next");
            // Without memory for it the present keys stay in use.
            let Ok(key) = PeriodKey::of(&next) else {
                return;
            };
            self.secret = next;
            self.previous = Some(std::mem::replace(&mut self.current, key));
            self.number += 1;
        }
    }
}

impl PeriodKey {
    fn of(secret: &[u8; SECRET_BYTES]) -> Result<PeriodKey, Unspecified> {
        let mut name = [0; NAME_BYTES];
        for (to, from) in name.iter_mut().zip(derived(secret, b"name")) {
            *to = from;
        }
        let key = RandomizedNonceKey::new(&AES_256_GCM, &derived(secret, b"key"))?;
        Ok(PeriodKey { name, key })
    }

    /// The name, the nonce, and the encrypted state with its tag.
    fn encrypt(&self, state: &[u8], context: &[u8]) -> Option<Vec<u8>> {
        let mut sealed = state.to_vec();
        let aad = Aad::from([&self.name[..], context].concat());
        let nonce = self.key.seal_in_place_append_tag(aad, &mut sealed).ok()?;
        Some([&self.name[..], nonce.as_ref(), &sealed].concat())
    }

    fn decrypt(&self, sealed: &[u8], context: &[u8]) -> Option<Vec<u8>> {
        let (nonce, sealed) = sealed.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let aad = Aad::from([&self.name[..], context].concat());
        let mut state = sealed.to_vec();
        let opened = self.key.open_in_place(nonce, aad, &mut state).ok()?.len();
        state.truncate(opened);
        Some(state)
    }
}

fn derived(secret: &[u8; SECRET_BYTES], purpose: &[u8]) -> [u8; SECRET_BYTES] {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
    let mut output = [0; SECRET_BYTES];
    for (to, from) in output.iter_mut().zip(hmac::sign(&key, purpose).as_ref()) {
        *to = *from;
    }
    output
}

/// Makes tickets that are valid in one context: with the same rules for clients' certificates, which are not verified again.
pub(super) struct Ticketer {
    pub(super) secret: Arc<TicketSecret>,
    pub(super) context: Vec<u8>,
}

impl fmt::Debug for Ticketer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Ticketer")
    }
}

impl ProducesTickets for Ticketer {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        resumption::LIFETIME.as_secs() as u32
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        if plain.len() > STATE_BYTES_MAX {
            return None;
        }
        let until_s = resumption::until_s();
        let state = [&until_s.to_be_bytes(), plain].concat();
        self.secret
            .encrypt_at(Instant::now(), &state, &self.context)
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        let state = self
            .secret
            .decrypt_at(Instant::now(), cipher, &self.context)?;
        let (until_s, plain) = state.split_first_chunk()?;
        let until_s = u64::from_be_bytes(*until_s);
        if until_s < resumption::now_s() {
            return None;
        }
        resumption::limit(until_s);
        Some(plain.to_vec())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// What a fork does: a second process with the same secret.
    fn forked(from: &TicketSecret) -> TicketSecret {
        let periods = from.periods.lock().unwrap();
        TicketSecret {
            started: from.started,
            period: from.period,
            periods: Mutex::new(Periods {
                number: periods.number,
                secret: periods.secret,
                current: PeriodKey::of(&periods.secret).unwrap(),
                previous: None,
            }),
        }
    }

    #[test]
    fn a_ticket_is_accepted_in_its_period_and_the_next() {
        let secret = TicketSecret::with_period(SECOND).unwrap();
        let start = secret.started;
        let ticket = secret.encrypt_at(start, b"state", b"").unwrap();
        for (seconds, expected) in [(0, true), (1, true), (2, false), (3, false)] {
            let state = secret.decrypt_at(start + seconds * SECOND, &ticket, b"");
            assert_eq!(
                state.as_deref() == Some(&b"state"[..]),
                expected,
                "{seconds}"
            );
        }
    }

    #[test]
    fn a_ticket_of_a_resumed_session_is_valid_for_as_long_as_its_first_one() {
        let ticketer = Ticketer {
            secret: Arc::new(TicketSecret::new().unwrap()),
            context: Vec::new(),
        };
        let now_s = resumption::now_s();
        let encrypt = |until_s| resumption::within(until_s, || ticketer.encrypt(b"state").unwrap());
        let decrypt = |ticket: &[u8]| resumption::within(u64::MAX, || ticketer.decrypt(ticket));
        let (first, _) = encrypt(u64::MAX);
        let (state, until_s) = decrypt(&first);
        assert_eq!(state.unwrap(), b"state");
        let lifetime_s = resumption::LIFETIME.as_secs();
        assert!((now_s + lifetime_s..=now_s + lifetime_s + 5).contains(&until_s));
        for earlier_s in [until_s - 1, now_s + 100] {
            let (ticket, kept_s) = encrypt(earlier_s);
            assert_eq!(kept_s, earlier_s);
            assert_eq!(decrypt(&ticket), (Some(b"state".to_vec()), earlier_s));
        }
        for past_s in [now_s - 1, 0] {
            assert_eq!(decrypt(&encrypt(past_s).0), (None, u64::MAX));
        }
    }

    #[test]
    fn a_session_that_fits_into_no_ticket_has_none() {
        let ticketer = Ticketer {
            secret: Arc::new(TicketSecret::new().unwrap()),
            context: Vec::new(),
        };
        assert!(ticketer.encrypt(&[0; STATE_BYTES_MAX + 1]).is_none());
        let longest = ticketer.encrypt(&[0; STATE_BYTES_MAX]).unwrap();
        assert_eq!(ticketer.decrypt(&longest).unwrap(), [0; STATE_BYTES_MAX]);
    }

    #[test]
    fn processes_agree_in_every_period_without_communicating() {
        let one = TicketSecret::with_period(SECOND).unwrap();
        let other = forked(&one);
        for seconds in [0, 1, 5, 40] {
            let now = one.started + seconds * SECOND;
            let ticket = one.encrypt_at(now, b"state", b"context").unwrap();
            assert_eq!(
                other.decrypt_at(now, &ticket, b"context").unwrap(),
                b"state"
            );
        }
        // A process that is forked later does not hold the secret of an earlier period.
        assert_ne!(forked(&one).periods.lock().unwrap().secret, [0; 32]);
        let first = forked(&other).periods.lock().unwrap().number;
        assert_eq!(first, 40);
    }

    #[test]
    fn a_changed_ticket_another_context_and_another_server_are_refused() {
        let secret = TicketSecret::with_period(SECOND).unwrap();
        let now = secret.started;
        let ticket = secret.encrypt_at(now, b"state", b"context").unwrap();
        assert!(secret.decrypt_at(now, &ticket, b"other").is_none());
        let other = TicketSecret::with_period(SECOND).unwrap();
        assert!(other.decrypt_at(now, &ticket, b"context").is_none());
        for length in 0..ticket.len() {
            assert!(
                secret
                    .decrypt_at(now, &ticket[..length], b"context")
                    .is_none()
            );
        }
        for index in 0..ticket.len() {
            let mut changed = ticket.clone();
            changed[index] ^= 1;
            assert!(secret.decrypt_at(now, &changed, b"context").is_none());
        }
        assert_eq!(
            format!(
                "{:?}",
                Ticketer {
                    secret: Arc::new(secret),
                    context: vec![7]
                }
            ),
            "Ticketer"
        );
    }
}
