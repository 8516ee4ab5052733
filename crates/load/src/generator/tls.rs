//! TLS in a plan, and what is counted of it.

mod trust;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use net::{Agreement, Expected, Pair, TlsClientConfig, TlsClientError, TlsFailure};
use serde::{Deserialize, Serialize};

use super::plan::Protocol;

pub(super) use trust::Trust;

/// How TLS is used. All files are in PEM.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tls {
    /// The name or IP address for which the server's certificate has to be. A name is sent to the server (SNI).
    pub server_name: String,
    /// The file of certificates to which the server's has to lead; `None`: nothing is verified.
    pub authorities: Option<PathBuf>,
    /// The files of the client's certificate and its key.
    pub pair: Option<(PathBuf, PathBuf)>,
    /// Sessions are not resumed: every handshake is a full one.
    pub is_always_full: bool,
    /// TLS 1.2 is not offered.
    pub is_tls13_only: bool,
    /// TLS 1.3 is not offered.
    pub is_tls12_only: bool,
}

/// What handshakes a run did, and why TLS failed.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct TlsReport {
    /// The version of the first handshake: "TLS 1.3".
    pub version: String,
    /// Its cipher suite.
    pub cipher_suite: String,
    /// Handshakes with certificates, in the whole run.
    pub handshakes_full: u64,
    /// Handshakes that resumed an earlier session, in the whole run.
    pub handshakes_resumed: u64,
    /// Full handshakes per second of the measured time.
    pub handshakes_full_per_s: f64,
    /// Resumed ones per second of the measured time.
    pub handshakes_resumed_per_s: f64,
    /// Connections on which TLS failed, by cause, in the whole run.
    pub failures: BTreeMap<String, u64>,
    /// What was wrong with the first of them.
    pub first_failure: String,
    /// The run was ended early: the server's certificate was refused on the first connections, and accepted on none.
    pub was_hopeless: bool,
}

/// From what a report is made: counts of one run, or of several.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct TlsRecord {
    version: String,
    cipher_suite: String,
    full: Handshakes,
    resumed: Handshakes,
    failures: BTreeMap<String, u64>,
    first_failure: String,
    #[serde(default)]
    was_hopeless: bool,
}

/// Counts of one thread.
#[derive(Default)]
pub(super) struct TlsCounts {
    agreement: Option<Agreement>,
    full: Handshakes,
    resumed: Handshakes,
    failures: BTreeMap<&'static str, u64>,
    first_failure: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
struct Handshakes {
    all: u64,
    measured: u64,
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// If one cannot be read or used; one line that names it.
    pub(super) fn config(&self, protocol: Protocol) -> Result<TlsClientConfig, String> {
        let authorities = self.authorities.as_deref();
        let authorities = authorities.map(|it| read("--cacert", it)).transpose()?;
        let pair = match &self.pair {
            Some((certificate, key)) => Some((read("--cert", certificate)?, read("--key", key)?)),
            None => None,
        };
        TlsClientConfig::new(Expected {
            server_name: &self.server_name,
            authorities: authorities.as_deref(),
            pair: pair
                .as_ref()
                .map(|(certificates, key)| Pair { certificates, key }),
            is_always_full: self.is_always_full,
            is_tls13_only: self.is_tls13_only,
            is_tls12_only: self.is_tls12_only,
            protocols: &[protocol.alpn()],
        })
        .map_err(|error| self.named(error))
    }

    /// The message for a configuration that cannot be used: the option, its file, and what to do.
    fn named(&self, error: TlsClientError) -> String {
        let shown =
            |path: Option<&PathBuf>| path.map_or(String::new(), |it| it.display().to_string());
        let (certificate, key) = match &self.pair {
            Some((certificate, key)) => (shown(Some(certificate)), shown(Some(key))),
            None => Default::default(),
        };
        match error {
            TlsClientError::Authorities(text) => {
                format!("--cacert: {} {text}", shown(self.authorities.as_ref()))
            }
            TlsClientError::Certificate(text) => format!("--cert: {certificate} {text}"),
            TlsClientError::Key(text) if certificate == key => {
                format!("--cert: {certificate} {text}; give the file of its key with --key")
            }
            TlsClientError::Key(text) => format!("--key: {key} {text}"),
            TlsClientError::Mismatch => {
                format!(
                    "--key: {key} is not the key of the certificate {certificate}; give its own"
                )
            }
            TlsClientError::Other(text) => text,
        }
    }
}

fn read(option: &str, path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| {
        let text = error.to_string();
        let reason = text.split(" (os error").next().unwrap_or_default();
        format!("{option}: cannot read {}: {reason}", path.display())
    })
}

impl TlsCounts {
    pub(super) fn note_handshake(&mut self, agreement: Agreement, is_measured: bool) {
        self.agreement.get_or_insert(agreement);
        let counts = match agreement.is_resumed {
            true => &mut self.resumed,
            false => &mut self.full,
        };
        counts.all += 1;
        counts.measured += u64::from(is_measured);
    }

    /// The server selected another protocol than HTTP/2, or none.
    pub(super) fn note_other_protocol(&mut self, selected: Option<&[u8]>) {
        *self.failures.entry("no_http2").or_insert(0) += 1;
        self.first_failure.get_or_insert_with(|| match selected {
            Some(name) => format!("the server selected {}", name.escape_ascii()),
            None => String::from("the server selected no protocol (ALPN)"),
        });
    }

    /// Returns what failed; `None`: the error is not one of TLS.
    pub(super) fn note_failure(&mut self, error: &io::Error) -> Option<TlsFailure> {
        let failure = TlsFailure::of(error)?;
        *self.failures.entry(failure.name()).or_insert(0) += 1;
        self.first_failure.get_or_insert_with(|| error.to_string());
        Some(failure)
    }
}

impl Handshakes {
    fn add(&mut self, other: Handshakes) {
        self.all += other.all;
        self.measured += other.measured;
    }
}

impl TlsRecord {
    /// Combines the counts of a run's threads.
    pub(super) fn new<'a>(
        threads: impl Iterator<Item = &'a TlsCounts>,
        was_hopeless: bool,
    ) -> TlsRecord {
        let mut record = TlsRecord {
            was_hopeless,
            ..TlsRecord::default()
        };
        for counts in threads {
            record.merge(&TlsRecord {
                version: counts
                    .agreement
                    .map_or(String::new(), |it| it.version_name().to_owned()),
                cipher_suite: counts
                    .agreement
                    .map_or(String::new(), |it| it.cipher_suite_name()),
                full: counts.full,
                resumed: counts.resumed,
                failures: counts
                    .failures
                    .iter()
                    .map(|(cause, count)| ((*cause).to_owned(), *count))
                    .collect(),
                first_failure: counts.first_failure.clone().unwrap_or_default(),
                was_hopeless,
            });
        }
        record
    }

    /// Adds the counts of another one.
    pub(super) fn merge(&mut self, other: &TlsRecord) {
        if self.version.is_empty() {
            self.version.clone_from(&other.version);
            self.cipher_suite.clone_from(&other.cipher_suite);
        }
        self.was_hopeless |= other.was_hopeless;
        self.full.add(other.full);
        self.resumed.add(other.resumed);
        for (cause, count) in &other.failures {
            *self.failures.entry(cause.clone()).or_insert(0) += count;
        }
        if self.first_failure.is_empty() {
            self.first_failure.clone_from(&other.first_failure);
        }
    }
}

impl TlsReport {
    /// The report of a record, whose measured time had this length.
    pub(super) fn new(record: &TlsRecord, seconds: f64) -> TlsReport {
        let per_s = |count: u64| {
            if seconds > 0.0 {
                count as f64 / seconds
            } else {
                0.0
            }
        };
        TlsReport {
            version: record.version.clone(),
            cipher_suite: record.cipher_suite.clone(),
            handshakes_full: record.full.all,
            handshakes_resumed: record.resumed.all,
            handshakes_full_per_s: per_s(record.full.measured),
            handshakes_resumed_per_s: per_s(record.resumed.measured),
            failures: record.failures.clone(),
            first_failure: record.first_failure.clone(),
            was_hopeless: record.was_hopeless,
        }
    }
}
