//! Which clients are accepted with several lists, and until when their sessions are resumed.

use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CrlDistributionPoint,
    CrlIssuingDistributionPoint, CrlScope, DnType, IsCa, Issuer, KeyIdMethod, KeyPair,
    RevokedCertParams, date_time_ymd,
};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::{CertificateError, Error};

use super::super::config::{Clients, TlsConfig, TlsError, verifier};
use super::super::resumption::within;
use super::super::sealing::provider;
use super::super::{Offer, Pair, ServerPair};

struct Authority {
    certificate: rcgen::Certificate,
    issuer: Issuer<'static, KeyPair>,
}

/// A list that is issued in 2024 and valid until 2100, unless it says something else.
struct List {
    issued: i32,
    ends: i32,
    number: u64,
    revoked: Vec<u64>,
    key: Option<u8>,
    scope: Option<CrlScope>,
}

const LIST: List = List {
    issued: 2024,
    ends: 2100,
    number: 1,
    revoked: Vec::new(),
    key: None,
    scope: None,
};

fn params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

impl Authority {
    fn new(name: &str) -> Authority {
        let mut params = params(name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Authority {
            certificate: params.self_signed(&key).unwrap(),
            issuer: Issuer::new(params, key),
        }
    }

    /// A client's certificate.
    fn issue(&self, serial: u64) -> CertificateDer<'static> {
        let mut params = params("client");
        params.serial_number = Some(serial.into());
        let key = KeyPair::generate().unwrap();
        params.signed_by(&key, &self.issuer).unwrap().der().clone()
    }

    fn list(&self, list: List) -> Vec<u8> {
        let revoked = |serial| RevokedCertParams {
            serial_number: serial,
            revocation_time: date_time_ymd(2020, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let params = CertificateRevocationListParams {
            this_update: date_time_ymd(list.issued, 1, 1),
            next_update: date_time_ymd(list.ends, 1, 1),
            crl_number: list.number.into(),
            issuing_distribution_point: list.scope.map(|scope| CrlIssuingDistributionPoint {
                distribution_point: CrlDistributionPoint {
                    uris: vec!["http://a.test".to_owned()],
                },
                scope: Some(scope),
            }),
            revoked_certs: list
                .revoked
                .iter()
                .map(|serial| revoked((*serial).into()))
                .collect(),
            key_identifier_method: list.key.map_or(KeyIdMethod::Sha256, |key| {
                KeyIdMethod::PreSpecified(vec![key])
            }),
        };
        let made = params.signed_by(&self.issuer).unwrap();
        made.pem().unwrap().into_bytes()
    }
}

/// Verifies a chain. Returns until when the session may be resumed.
fn verify(
    authorities: &[&Authority],
    lists: &[Vec<u8>],
    chain: &[CertificateDer<'static>],
) -> Result<u64, Error> {
    let pem: String = authorities.iter().map(|it| it.certificate.pem()).collect();
    let clients = Clients {
        authorities: pem.as_bytes(),
        lists,
        is_optional: false,
    };
    let (verifier, _) = verifier(clients, &Arc::new(provider())).unwrap();
    let (client, intermediates) = chain.split_first().unwrap();
    let verify = || verifier.verify_client_cert(client, intermediates, UnixTime::now());
    let (verified, until_s) = within(u64::MAX, verify);
    verified.map(|_| until_s)
}

fn is_revoked(result: &Result<u64, Error>) -> bool {
    *result == Err(Error::InvalidCertificate(CertificateError::Revoked))
}

#[test]
fn of_two_lists_the_newer_one_counts_in_any_order() {
    let authority = Authority::new("a");
    let (good, bad) = ([authority.issue(1)], [authority.issue(2)]);
    for (issued, number) in [(2025, 2), (2025, 1), (2024, 300)] {
        let old = authority.list(List { number: 2, ..LIST });
        let new = authority.list(List {
            issued,
            number,
            revoked: vec![2],
            ..LIST
        });
        let together = [old.clone(), new.clone()].concat();
        for lists in [
            vec![old.clone(), new.clone()],
            vec![new, old],
            vec![together],
        ] {
            assert!(verify(&[&authority], &lists, &good).is_ok());
            assert!(is_revoked(&verify(&[&authority], &lists, &bad)));
        }
    }
}

#[test]
fn a_list_that_has_expired_does_not_hide_a_newer_one_but_a_newer_one_hides_an_older_one() {
    let authority = Authority::new("a");
    let expired = |issued| {
        authority.list(List {
            issued,
            ends: issued + 1,
            ..LIST
        })
    };
    let valid = || authority.list(LIST);
    let client = [authority.issue(1)];
    let verify = |lists: &[Vec<u8>]| verify(&[&authority], lists, &client);
    assert!(verify(&[expired(2020), valid()]).is_ok());
    assert!(matches!(
        verify(&[
            expired(2024),
            authority.list(List {
                issued: 2023,
                ..LIST
            })
        ]),
        Err(Error::InvalidCertificate(
            CertificateError::ExpiredRevocationListContext { .. }
        ))
    ));
}

#[test]
fn an_authority_with_two_keys_of_one_name_has_a_list_of_each() {
    let (old, new) = (Authority::new("a"), Authority::new("a"));
    let lists = [
        old.list(List {
            revoked: vec![2],
            ..LIST
        }),
        new.list(List {
            revoked: vec![3],
            ..LIST
        }),
    ];
    for authorities in [[&old, &new], [&new, &old]] {
        for (authority, revoked) in [(&old, 2), (&new, 3)] {
            for serial in 1..=3 {
                let result = verify(&authorities, &lists, &[authority.issue(serial)]);
                assert_eq!(result.is_err(), serial == revoked, "{result:?}");
                assert_eq!(is_revoked(&result), serial == revoked);
            }
        }
        // The clients of a key without a list are refused.
        for (index, list) in lists.iter().enumerate() {
            let only = [list.clone()];
            let is_accepted = |it: &&Authority| verify(&authorities, &only, &[it.issue(1)]).is_ok();
            let accepted: Vec<bool> = [&old, &new].iter().map(is_accepted).collect();
            assert_eq!(accepted, [index == 0, index == 1]);
        }
    }
}

#[test]
fn a_list_whose_key_is_named_otherwise_cannot_be_bypassed() {
    let authority = Authority::new("a");
    let mut expired = params("a");
    expired.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    expired.not_after = date_time_ymd(2020, 1, 1);
    let expired = expired.self_signed(&KeyPair::generate().unwrap()).unwrap();
    let (old, new) = (
        authority.list(LIST),
        authority.list(List {
            issued: 2025,
            revoked: vec![2],
            key: Some(7),
            ..LIST
        }),
    );
    for lists in [[old.clone(), new.clone()], [new, old]] {
        let verify = |chain: &[CertificateDer<'static>]| verify(&[&authority], &lists, chain);
        assert!(verify(&[authority.issue(1)]).is_ok());
        assert!(is_revoked(&verify(&[authority.issue(2)])));
        // webpki reports the certificate that has expired instead of the one that is revoked.
        let result = verify(&[authority.issue(2), expired.der().clone()]);
        assert!(result.is_err() && !is_revoked(&result), "{result:?}");
    }
}

#[test]
fn of_lists_about_all_and_about_some_certificates_the_newest_counts() {
    let authority = Authority::new("a");
    let list = |issued, revoked, scope| {
        authority.list(List {
            issued,
            revoked: vec![revoked],
            scope,
            ..LIST
        })
    };
    let of_users = |issued, revoked| list(issued, revoked, Some(CrlScope::UserCertsOnly));
    for lists in [
        [list(2024, 1, None), of_users(2025, 2)],
        [of_users(2024, 1), list(2025, 2, None)],
        [
            of_users(2025, 2),
            list(2026, 1, Some(CrlScope::CaCertsOnly)),
        ],
    ] {
        assert!(verify(&[&authority], &lists, &[authority.issue(1)]).is_ok());
        let result = verify(&[&authority], &lists, &[authority.issue(2)]);
        assert!(is_revoked(&result));
    }
}

#[test]
fn a_session_ends_with_the_list_of_its_authority() {
    let (one, other) = (Authority::new("a"), Authority::new("b"));
    let until_2101_s = 4_133_980_800;
    let lists = [
        one.list(List { ends: 2101, ..LIST }),
        other.list(List {
            issued: 2023,
            ends: 2024,
            ..LIST
        }),
    ];
    let until_s = verify(&[&one, &other], &lists, &[one.issue(1)]).unwrap();
    assert_eq!(until_s, until_2101_s - 1);
    let result = verify(&[&one, &other], &lists, &[other.issue(1)]);
    assert!(result.is_err());
}

/// A server's offer with one authority and some lists.
fn offer(authority: &Authority, lists: &[Vec<u8>]) -> Result<TlsConfig, TlsError> {
    let made = rcgen::generate_simple_self_signed(["a.test".to_owned()]).unwrap();
    let (certificates, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let pair = Pair {
        certificates: certificates.as_bytes(),
        key: key.as_bytes(),
    };
    let pem = authority.certificate.pem();
    TlsConfig::offer(Offer {
        pairs: vec![ServerPair::read(pair, None)?],
        clients: Some(Clients {
            authorities: pem.as_bytes(),
            lists,
            is_optional: false,
        }),
        ..Offer::default()
    })
}

#[test]
fn lists_that_are_superseded_are_known() {
    let authority = Authority::new("a");
    let issued = |issued| authority.list(List { issued, ..LIST });
    let config = offer(&authority, &[issued(2024), issued(2026), issued(2025)]).unwrap();
    let lists = config.lists().iter();
    let found: Vec<_> = lists.map(|it| (it.file, it.is_superseded)).collect();
    assert_eq!(found, [(1, false), (2, true), (0, true)]);
}

#[test]
fn too_many_keys_of_one_name_are_refused() {
    let authority = Authority::new("a");
    let by_key = |key: u8| {
        authority.list(List {
            issued: 2000 + i32::from(key),
            key: Some(key),
            ..LIST
        })
    };
    let lists: Vec<_> = (0..9).map(by_key).collect();
    assert!(offer(&authority, &lists[..8]).is_ok());
    let Err(TlsError::BadList(0, text)) = offer(&authority, &lists) else {
        panic!("nine keys");
    };
    assert!(
        text.starts_with("its list of CN=a is by one of several keys"),
        "{text}"
    );
}
