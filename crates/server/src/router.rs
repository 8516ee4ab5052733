//! Finds the route of a path, on the bytes as received.
//!
//! A path without parameters is one hash look-up. The others form a tree of segments, tried in the order literal, `{name:int}`, `{name}`,
//! `{name:path}`, backtracking from branches without a match. A request's path is percent-decoded segment by segment, and only if it
//! contains a `%` (RFC 3986 section 6.2.2.2), so `%2F` in a segment stays data.

mod literal;

use std::collections::BTreeSet;

use wire::Method;

use self::literal::LiteralMap;

/// Maximum parameters of a pattern.
const PARAMETERS_MAX: usize = 16;

/// What a parameter matches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParameterKind {
    /// One non-empty segment.
    Text,
    /// One segment of decimal digits with an optional `-`, within 64 bits.
    Integer,
    /// The rest of the path, slashes included, possibly empty.
    Path,
}

/// The positions of a matched path's parameters, in the pattern's order.
#[derive(Clone, Copy, Default, Debug)]
pub struct Parameters {
    spans: [(u32, u32); PARAMETERS_MAX],
    count: usize,
}

impl Parameters {
    /// The bytes of the `index`-th parameter, still percent-encoded.
    pub fn get<'p>(&self, index: usize, path: &'p [u8]) -> Option<&'p [u8]> {
        let (start, end) = self.span(index)?;
        path.get(start as usize..end as usize)
    }

    /// Start and end of the `index`-th parameter in the path.
    pub fn span(&self, index: usize) -> Option<(u32, u32)> {
        self.spans.get(..self.count)?.get(index).copied()
    }

    fn push(&mut self, start: usize, end: usize) {
        if let Some(span) = self.spans.get_mut(self.count) {
            *span = (start as u32, end as u32);
            self.count += 1;
        }
    }
}

/// The result of a look-up.
#[derive(Clone, Copy, Debug)]
pub enum Match<'r> {
    /// The route's number, as returned by [`Router::add`].
    Route(usize),
    /// The path exists, but not for this method: the value of `Allow`.
    OtherMethods(&'r str),
    /// No such path.
    None,
}

/// Why a pattern was rejected, in one sentence.
#[derive(PartialEq, Eq, Debug)]
pub struct PatternError(pub String);

/// Routes by pattern and method.
#[derive(Clone, Default)]
pub struct Router {
    literal: LiteralMap,
    nodes: Vec<Node>,
    resources: Vec<Resource>,
    routes: usize,
}

#[derive(Clone, Default)]
struct Node {
    literals: LiteralMap,
    integer: Option<usize>,
    text: Option<usize>,
    rest: Option<usize>,
    resource: Option<usize>,
}

#[derive(Clone)]
struct Resource {
    pattern: String,
    /// In the order of `Method`. The last one is for all other methods, of which `methods` lists each by name.
    by_method: [Option<usize>; METHODS],
    methods: Vec<(Box<[u8]>, usize)>,
    allow: String,
}

const METHODS: usize = Method::Other as usize + 1;

impl Resource {
    #[inline]
    fn route(&self, method: Method, name: &[u8]) -> Option<usize> {
        if method == Method::Other {
            return self
                .methods
                .iter()
                .find(|(own, _)| **own == *name)
                .map(|(_, route)| *route);
        }
        self.by_method.get(method as usize).copied().flatten()
    }
}

enum Segment<'p> {
    Literal(&'p str),
    Parameter(&'p str, ParameterKind),
}

impl Router {
    /// A router without routes.
    pub fn new() -> Router {
        Router {
            nodes: vec![Node::default()],
            ..Router::default()
        }
    }

    /// Adds a route and returns its number (0, 1, 2, ...) and its parameters.
    ///
    /// # Errors
    /// If the pattern is invalid or the route exists already.
    pub fn add(
        &mut self,
        method: &str,
        pattern: &str,
    ) -> Result<(usize, Vec<(String, ParameterKind)>), PatternError> {
        let segments = parse_pattern(pattern)?;
        let parameters = parameters_of(&segments, pattern)?;
        let resource = self.resource(&segments, pattern);
        let route = self.routes;
        let resource = self
            .resources
            .get_mut(resource)
            .ok_or_else(|| PatternError("no resource".into()))?;
        if resource
            .methods
            .iter()
            .any(|(name, _)| **name == *method.as_bytes())
        {
            let existing = &resource.pattern;
            return Err(PatternError(format!(
                "{method} {pattern} is taken already (by {existing})"
            )));
        }
        resource.methods.push((method.as_bytes().into(), route));
        let slots = [
            Some(Method::from_bytes(method.as_bytes())),
            (method == "GET").then_some(Method::Head),
        ];
        for slot in slots.into_iter().flatten() {
            if let Some(entry) = resource.by_method.get_mut(slot as usize)
                && (slot != Method::Head || method == "HEAD" || entry.is_none())
            {
                *entry = Some(route);
            }
        }
        resource.allow = allow(resource.methods.iter().map(|(name, _)| &**name));
        self.routes += 1;
        Ok((route, parameters))
    }

    /// Finds the route for a method and a path without its query, and stores its parameters in `parameters`. HEAD falls back to GET.
    ///
    /// Cost: a hash of the path if it has no parameters; no allocation unless the path contains a `%`.
    #[inline(always)]
    pub fn find(
        &self,
        method: Method,
        name: &[u8],
        path: &[u8],
        parameters: &mut Parameters,
    ) -> Match<'_> {
        parameters.count = 0;
        let found = match self.literal.get(path) {
            Some(resource) => Some(resource),
            None if path.starts_with(b"/") => self.walk(0, path, 1, parameters),
            // `*` is not a path (RFC 9112 section 3.2.4).
            None => None,
        };
        let Some(resource) = found.and_then(|index| self.resources.get(index)) else {
            return Match::None;
        };
        match resource.route(method, name) {
            Some(route) => Match::Route(route),
            None => Match::OtherMethods(&resource.allow),
        }
    }

    /// The methods of all routes, and OPTIONS: the value of `Allow` for the server as a whole (RFC 9110 section 9.3.7).
    pub fn methods(&self) -> String {
        let resources = self.resources.iter();
        let names = resources.flat_map(|resource| resource.methods.iter().map(|(name, _)| &**name));
        allow(names.chain([&b"OPTIONS"[..]]))
    }

    /// Matches the rest of `path` from byte `at` (after a slash) below `node`. The depth is bounded by that of the patterns.
    fn walk(
        &self,
        node: usize,
        path: &[u8],
        at: usize,
        parameters: &mut Parameters,
    ) -> Option<usize> {
        let node = self.nodes.get(node)?;
        let rest = path.get(at..)?;
        // Segments are short: a plain loop ends before a call of memchr would start.
        let length = rest
            .iter()
            .position(|byte| *byte == b'/')
            .unwrap_or(rest.len());
        let segment = rest.get(..length)?;
        let next = (length < rest.len()).then_some(at + length + 1);
        let before = parameters.count;
        let literal = self
            .literal_child(node, segment)
            .and_then(|child| self.step(child, path, next, parameters));
        if literal.is_some() {
            return literal;
        }
        let integer = node.integer.filter(|_| is_integer(segment));
        let text = node.text.filter(|_| !segment.is_empty());
        for child in [integer, text].into_iter().flatten() {
            parameters.count = before;
            parameters.push(at, at + length);
            let found = self.step(child, path, next, parameters);
            if found.is_some() {
                return found;
            }
        }
        parameters.count = before;
        let child = node.rest?;
        parameters.push(at, path.len());
        self.nodes.get(child)?.resource
    }

    fn step(
        &self,
        child: usize,
        path: &[u8],
        next: Option<usize>,
        parameters: &mut Parameters,
    ) -> Option<usize> {
        match next {
            Some(at) => self.walk(child, path, at, parameters),
            None => self.nodes.get(child)?.resource,
        }
    }

    fn literal_child(&self, node: &Node, segment: &[u8]) -> Option<usize> {
        if node.literals.is_empty() {
            return None;
        }
        if segment.contains(&b'%') {
            return node.literals.get(&percent_decode(segment));
        }
        node.literals.get(segment)
    }

    fn resource(&mut self, segments: &[Segment<'_>], pattern: &str) -> usize {
        let mut at = 0;
        for segment in segments {
            at = self.child(at, segment);
        }
        let fresh = self.resources.len();
        let index = match self.nodes.get_mut(at) {
            Some(node) => *node.resource.get_or_insert(fresh),
            None => fresh,
        };
        if index == fresh {
            let resource = Resource {
                pattern: pattern.into(),
                by_method: [None; METHODS],
                methods: Vec::new(),
                allow: String::new(),
            };
            self.resources.push(resource);
            if segments
                .iter()
                .all(|segment| matches!(segment, Segment::Literal(_)))
            {
                self.literal.get_or_insert(pattern.as_bytes(), index);
            }
        }
        index
    }

    fn child(&mut self, parent: usize, segment: &Segment<'_>) -> usize {
        let fresh = self.nodes.len();
        let Some(node) = self.nodes.get_mut(parent) else {
            return fresh;
        };
        let child = match segment {
            Segment::Literal(text) => node.literals.get_or_insert(text.as_bytes(), fresh),
            Segment::Parameter(_, ParameterKind::Integer) => *node.integer.get_or_insert(fresh),
            Segment::Parameter(_, ParameterKind::Text) => *node.text.get_or_insert(fresh),
            Segment::Parameter(_, ParameterKind::Path) => *node.rest.get_or_insert(fresh),
        };
        if child == fresh {
            self.nodes.push(Node::default());
        }
        child
    }
}

/// The parameters of a pattern: their names and what they match, in order.
///
/// # Errors
/// If the pattern is invalid.
pub fn pattern_parameters(pattern: &str) -> Result<Vec<(String, ParameterKind)>, PatternError> {
    parameters_of(&parse_pattern(pattern)?, pattern)
}

fn parse_pattern(pattern: &str) -> Result<Vec<Segment<'_>>, PatternError> {
    let Some(rest) = pattern.strip_prefix('/') else {
        return Err(PatternError(format!(
            "the pattern {pattern:?} must begin with a slash"
        )));
    };
    rest.split('/')
        .map(|segment| parse_segment(segment, pattern))
        .collect()
}

fn parse_segment<'p>(segment: &'p str, pattern: &str) -> Result<Segment<'p>, PatternError> {
    let Some(inner) = segment
        .strip_prefix('{')
        .and_then(|inner| inner.strip_suffix('}'))
    else {
        let hint = if segment.contains('%') {
            "it is compared with what a request's segment encodes: write a space, not %20"
        } else if segment.contains(['{', '}', '?', '#']) {
            "a parameter fills a whole segment: /users/{id:int}"
        } else {
            return Ok(Segment::Literal(segment));
        };
        return Err(PatternError(format!(
            "the pattern {pattern:?} has a bad segment {segment:?}; {hint}"
        )));
    };
    let (name, kind) = inner.split_once(':').unwrap_or((inner, "str"));
    let kind = match kind {
        "str" => ParameterKind::Text,
        "int" => ParameterKind::Integer,
        "path" => ParameterKind::Path,
        _ => {
            return Err(PatternError(format!(
                "the pattern {pattern:?} has an unknown type {kind:?}; known are str, int and path"
            )));
        }
    };
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    if name.is_empty() || !name.chars().all(is_name) {
        return Err(PatternError(format!(
            "the pattern {pattern:?} has a parameter without a proper name"
        )));
    }
    Ok(Segment::Parameter(name, kind))
}

fn parameters_of(
    segments: &[Segment<'_>],
    pattern: &str,
) -> Result<Vec<(String, ParameterKind)>, PatternError> {
    let mut parameters: Vec<(String, ParameterKind)> = Vec::new();
    for (index, segment) in segments.iter().enumerate() {
        let Segment::Parameter(name, kind) = segment else {
            continue;
        };
        if *kind == ParameterKind::Path && index + 1 != segments.len() {
            return Err(PatternError(format!(
                "{{{name}:path}} must be the last segment of {pattern:?}"
            )));
        }
        if parameters.iter().any(|(other, _)| other == name) {
            return Err(PatternError(format!(
                "the pattern {pattern:?} names {name} twice"
            )));
        }
        parameters.push(((*name).into(), *kind));
    }
    if parameters.len() > PARAMETERS_MAX {
        return Err(PatternError(format!(
            "the pattern {pattern:?} has more than {PARAMETERS_MAX} parameters"
        )));
    }
    Ok(parameters)
}

/// The value of `Allow`: each method once, HEAD wherever there is GET.
fn allow<'m>(methods: impl Iterator<Item = &'m [u8]>) -> String {
    let mut names: BTreeSet<&str> = methods
        .filter_map(|name| std::str::from_utf8(name).ok())
        .collect();
    if names.contains("GET") {
        names.insert("HEAD");
    }
    names.into_iter().collect::<Vec<_>>().join(", ")
}

fn is_integer(segment: &[u8]) -> bool {
    let digits = segment.strip_prefix(b"-").unwrap_or(segment);
    let is_short = !digits.is_empty() && digits.len() <= 18;
    is_short && digits.iter().all(u8::is_ascii_digit)
}

/// Decodes percent-encoded octets; a `%` without two hexadecimal digits is kept.
pub fn percent_decode(bytes: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((&first, tail)) = rest.split_first() {
        let octet = match (first, tail) {
            (b'%', [high, low, ..]) => hex(*high).zip(hex(*low)).map(|(high, low)| high << 4 | low),
            _ => None,
        };
        decoded.push(octet.unwrap_or(first));
        let used = if octet.is_some() { 2 } else { 0 };
        rest = tail.get(used..).unwrap_or_default();
    }
    decoded
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit)
        .to_digit(16)
        .and_then(|value| u8::try_from(value).ok())
}
