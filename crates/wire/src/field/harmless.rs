//! Which fields a recipient may remember from one client and compare with those of another.
//!
//! The duration of such a comparison can reveal to one client what another one sent. So only fields known to contain nothing secret are
//! remembered, and every other field is read each time: applications take credentials in fields of any name (`X-Api-Key`).
//!
//! Deliberately not among them:
//! - `Referer` and `Origin`: where a user comes from is private, and a URI may contain a token;
//! - `X-Forwarded-For`, `X-Real-IP` and `Forwarded`: they name the client, and behind a proxy they differ from request to request, so
//!   remembering them gains nothing;
//! - conditions, ranges and everything about the content of one message: rarely the same twice. The parser relies on this: no field
//!   that frames content is remembered ([`crate::memo`]).

/// Whether a field of this name may be remembered across connections.
#[inline]
pub fn is_harmless_field(name: &[u8]) -> bool {
    let known: &[&[u8]] = match name.len() {
        2 => &[b"te"],
        3 => &[b"dnt", b"via"],
        4 => &[b"host"],
        6 => &[b"accept", b"pragma"],
        7 => &[b"sec-gpc"],
        8 => &[b"priority"],
        9 => &[b"sec-ch-ua"],
        10 => &[b"user-agent", b"connection"],
        12 => &[b"content-type"],
        13 => &[b"cache-control"],
        15 => &[b"accept-encoding", b"accept-language"],
        16 => &[b"x-forwarded-host", b"x-forwarded-port"],
        17 => &[b"x-forwarded-proto"],
        25 => &[b"upgrade-insecure-requests"],
        _ => &[],
    };
    known.iter().any(|known| name.eq_ignore_ascii_case(known))
        || begins_with(name, b"sec-ch-ua-")
        || begins_with(name, b"sec-fetch-")
}

fn begins_with(name: &[u8], prefix: &[u8]) -> bool {
    name.get(..prefix.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

#[cfg(test)]
mod tests {
    use super::is_harmless_field;

    #[test]
    fn what_browsers_and_proxies_send_with_each_request_is_harmless() {
        for name in [
            "Host",
            "User-Agent",
            "Accept",
            "Accept-Encoding",
            "Accept-Language",
            "Connection",
            "Content-Type",
            "Cache-Control",
            "Pragma",
            "DNT",
            "Sec-GPC",
            "Sec-CH-UA",
            "sec-ch-ua-mobile",
            "Sec-CH-UA-Platform-Version",
            "Sec-Fetch-Dest",
            "sec-fetch-user",
            "Upgrade-Insecure-Requests",
            "Priority",
            "TE",
            "Via",
            "X-Forwarded-Host",
            "X-Forwarded-Port",
            "X-Forwarded-Proto",
        ] {
            for name in [
                name.to_owned(),
                name.to_ascii_uppercase(),
                name.to_ascii_lowercase(),
            ] {
                assert!(is_harmless_field(name.as_bytes()), "{name}");
            }
        }
    }

    #[test]
    fn every_other_field_is_not() {
        for name in [
            "",
            "Cookie",
            "Authorization",
            "Proxy-Authorization",
            "X-Api-Key",
            "X-Auth-Token",
            "X-CSRF-Token",
            "X-Amz-Security-Token",
            "Referer",
            "Origin",
            "Forwarded",
            "X-Forwarded-For",
            "X-Real-IP",
            "If-None-Match",
            "Content-Length",
            "Transfer-Encoding",
            "Expect",
            "Hosts",
            "Sec-CH-UAX",
            "Sec-Fetch",
            "Sec-WebSocket-Key",
            "X-Host",
        ] {
            assert!(!is_harmless_field(name.as_bytes()), "{name}");
        }
    }
}
