//! What bounds one request: those of the server, or of its route or the prefix of its path.

use std::borrow::Cow;

use crate::app::bounds::Overrides;
use crate::router::percent_decode;

/// The bounds of one request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Bounds {
    pub(crate) body_bytes_max: u64,
    /// 0 = no limit.
    pub(crate) handler_timeout_ms: u64,
    /// It has waited for a place, which it does once at most.
    pub(crate) has_waited: bool,
}

impl Bounds {
    pub(crate) fn with(self, overrides: Overrides) -> Bounds {
        Bounds {
            body_bytes_max: overrides.body_bytes_max.unwrap_or(self.body_bytes_max),
            handler_timeout_ms: overrides
                .handler_timeout_ms
                .unwrap_or(self.handler_timeout_ms),
            ..self
        }
    }

    fn strictest(self, other: Bounds) -> Bounds {
        // 0 is no limit: it becomes the greatest number, and the other way round.
        let timeout_ms = |bounds: Bounds| bounds.handler_timeout_ms.wrapping_sub(1);
        Bounds {
            body_bytes_max: self.body_bytes_max.min(other.body_bytes_max),
            handler_timeout_ms: timeout_ms(self).min(timeout_ms(other)).wrapping_add(1),
            ..self
        }
    }
}

/// The bounds of paths, by prefix.
///
/// A prefix covers itself and the paths below it: `/a` covers `/a` and `/a/b`, and not `/ab`. Each bound is that of the longest prefix that
/// has it.
///
/// A path with an encoded slash, a backslash, an empty or a dot segment may mean one resource to the application and another one to a proxy or
/// a file system. It gets the strictest of the bounds that it may have, so that no spelling of a path loosens them.
#[derive(Clone, Debug, Default)]
pub struct PathRules {
    /// The longest prefixes first.
    rules: Vec<(Vec<u8>, Overrides)>,
}

impl PathRules {
    /// Adds a rule for a prefix, which is not percent-encoded.
    pub fn add(&mut self, prefix: &str, overrides: Overrides) {
        self.rules.push((prefix.as_bytes().to_vec(), overrides));
        self.rules
            .sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The most content that any of them allows.
    pub fn body_bytes_max(&self) -> Option<u64> {
        let bounds = self.rules.iter().map(|(_, rule)| rule.body_bytes_max);
        bounds.flatten().max()
    }

    /// The bounds of a path as it was received, where those of the server are `bounds`.
    pub(crate) fn bounds_of(&self, path: &[u8], bounds: Bounds) -> Bounds {
        if self.rules.is_empty() {
            return bounds;
        }
        let decoded = match path.contains(&b'%') {
            true => Cow::Owned(percent_decode(path)),
            false => Cow::Borrowed(path),
        };
        let mut found = bounds.with(self.of(&decoded));
        if let Some(kept) = with_encoded_slashes(path) {
            found = found.strictest(bounds.with(self.of(&kept)));
        }
        if is_ambiguous(&decoded) {
            found = found.strictest(bounds.with(self.of(&normalized(&decoded))));
        }
        found
    }

    fn of(&self, path: &[u8]) -> Overrides {
        let mut found = Overrides::default();
        for (prefix, rule) in &self.rules {
            if covers(prefix, path) {
                found.body_bytes_max = found.body_bytes_max.or(rule.body_bytes_max);
                found.handler_timeout_ms = found.handler_timeout_ms.or(rule.handler_timeout_ms);
            }
        }
        found
    }
}

fn covers(prefix: &[u8], path: &[u8]) -> bool {
    match path.strip_prefix(prefix) {
        Some(rest) => prefix.ends_with(b"/") || rest.is_empty() || rest.starts_with(b"/"),
        None => false,
    }
}

/// The path with all but its encoded slashes decoded, if it has any: they are a part of their segment to some, and separate segments to others.
fn with_encoded_slashes(path: &[u8]) -> Option<Vec<u8>> {
    let is_slash = |part: &[u8]| part.eq_ignore_ascii_case(b"%2f");
    if !path.windows(3).any(is_slash) {
        return None;
    }
    let (mut kept, mut rest) = (Vec::with_capacity(path.len()), path);
    while let Some(at) = rest.windows(3).position(is_slash) {
        let (before, after) = rest.split_at(at);
        kept.extend_from_slice(&percent_decode(before));
        // No byte of a path, so that it matches no prefix.
        kept.push(0);
        rest = after.get(3..).unwrap_or_default();
    }
    kept.extend_from_slice(&percent_decode(rest));
    Some(kept)
}

fn is_ambiguous(path: &[u8]) -> bool {
    let is_slash = |byte: &u8| matches!(byte, b'/' | b'\\');
    let mut segments = path.get(1..).unwrap_or_default().split(is_slash).peekable();
    let mut is_found = path.contains(&b'\\');
    while let Some(segment) = segments.next() {
        // The last segment may be empty.
        is_found |=
            matches!(segment, b"." | b"..") || segment.is_empty() && segments.peek().is_some();
    }
    is_found
}

/// The path without empty and dot segments (RFC 3986 section 5.2.4), and with backslashes as slashes.
fn normalized(path: &[u8]) -> Vec<u8> {
    let mut kept: Vec<&[u8]> = Vec::new();
    let mut is_open = false;
    for segment in path.split(|byte| matches!(byte, b'/' | b'\\')) {
        is_open = matches!(segment, b"" | b"." | b"..");
        match segment {
            b"" | b"." => {}
            b".." => drop(kept.pop()),
            _ => kept.push(segment),
        }
    }
    let mut path = vec![b'/'];
    path.extend(kept.join(&b'/'));
    if is_open && path.len() > 1 {
        path.push(b'/');
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVER: Bounds = Bounds {
        body_bytes_max: 100,
        handler_timeout_ms: 60,
        has_waited: false,
    };

    fn rules(all: &[(&str, Option<u64>, Option<u64>)]) -> PathRules {
        let mut rules = PathRules::default();
        for (prefix, body_bytes_max, handler_timeout_ms) in all {
            let overrides = Overrides {
                body_bytes_max: *body_bytes_max,
                handler_timeout_ms: *handler_timeout_ms,
            };
            rules.add(prefix, overrides);
        }
        rules
    }

    fn body(rules: &PathRules, path: &str) -> u64 {
        rules.bounds_of(path.as_bytes(), SERVER).body_bytes_max
    }

    #[test]
    fn each_bound_is_that_of_the_longest_prefix_that_has_it() {
        let rules = rules(&[
            ("/", None, Some(50)),
            ("/a", Some(10), Some(5)),
            ("/a/b", Some(1000), None),
            ("/c/", Some(1), Some(0)),
        ]);
        let found = |path: &str| {
            let bounds = rules.bounds_of(path.as_bytes(), SERVER);
            (bounds.body_bytes_max, bounds.handler_timeout_ms)
        };
        assert_eq!(found("/x"), (100, 50));
        assert_eq!(found("/a"), (10, 5));
        assert_eq!(found("/a/"), (10, 5));
        assert_eq!(found("/ab"), (100, 50));
        assert_eq!(found("/a/b"), (1000, 5));
        assert_eq!(found("/a/b/c"), (1000, 5));
        assert_eq!(found("/a/bc"), (10, 5));
        assert_eq!(found("/c"), (100, 50));
        assert_eq!(found("/c/d"), (1, 0));
        assert_eq!(found("*"), (100, 60));
        assert_eq!(PathRules::default().bounds_of(b"/", SERVER), SERVER);
    }

    #[test]
    fn no_spelling_avoids_a_strict_bound() {
        let rules = rules(&[("/login", Some(1), None), ("/ü", Some(2), None)]);
        for path in [
            "/login",
            "/%6cogin",
            "/%6Cogin/",
            "/login/x",
            "/./login",
            "//login",
            "/x/../login",
            "/x/%2e%2e/login",
            "/x/.%2E/login",
            "/%2Flogin",
            "/%2flogin",
            "\\login",
            "/x\\..\\login",
            "/%5clogin",
            "/login%2Fx",
            "/../login",
            "/login/..",
            "/x/..//login/.",
        ] {
            // The last segment of "/login/.." leads out of it, which only the spelling as it is covers.
            assert_eq!(body(&rules, path), 1, "{path}");
        }
        for path in ["/%C3%BC", "/%c3%bc/x"] {
            assert_eq!(body(&rules, path), 2, "{path}");
        }
        for path in ["/logins", "/x/login", "/Login", "/%256cogin", "/login%00"] {
            assert_eq!(body(&rules, path), 100, "{path}");
        }
    }

    #[test]
    fn no_spelling_of_another_path_gets_a_loose_bound() {
        let rules = rules(&[
            ("/upload", Some(1000), Some(0)),
            ("/upload/small", Some(5), Some(7)),
        ]);
        for path in [
            "/upload/../login",
            "/upload/%2e%2e/login",
            "/upload/..",
            "/upload%2F..%2Flogin",
            "/upload%2Fx",
            "/upload\\..\\login",
            "/upload/x/../../login",
            "/login/../upload",
            "/upload/..%2flogin",
            "/upload/..%5Clogin",
        ] {
            let bounds = rules.bounds_of(path.as_bytes(), SERVER);
            assert_eq!(bounds, SERVER, "{path}");
        }
        for path in [
            "/upload",
            "/upload/",
            "/upload/a//b",
            "/upload/./x",
            "/%75pload/x",
            "/upload/a%20b",
        ] {
            assert_eq!(body(&rules, path), 1000, "{path}");
        }
        for path in [
            "/upload/small",
            "/upload/x/../small",
            "/upload//small",
            "/upload/small/../x",
        ] {
            let bounds = rules.bounds_of(path.as_bytes(), SERVER);
            assert_eq!(
                (bounds.body_bytes_max, bounds.handler_timeout_ms),
                (5, 7),
                "{path}"
            );
        }
    }
}
