//! Requests as HTTP/2 needs them, and their header blocks on one connection.

use wire::h2::Encoder;

use super::super::Plan;
use super::super::plan::Request;

/// Requests of more kinds share the places of the blocks that a connection keeps.
pub(super) const KEPT_MAX: usize = 8;

/// All kinds of requests of a plan.
pub(in super::super) struct Requests {
    scheme: &'static [u8],
    kinds: Vec<Rendered>,
}

/// One kind of request.
struct Rendered {
    method: Vec<u8>,
    authority: Vec<u8>,
    path: Vec<u8>,
    /// The field lines as in HTTP/1.
    section: Vec<u8>,
    content: Vec<u8>,
}

/// The last header block of one kind of request.
#[derive(Default)]
struct Block {
    kind: usize,
    bytes: Vec<u8>,
    /// It may be sent again as long as the encoder's generation is this.
    generation: Option<u64>,
}

/// The header blocks that one connection sends.
pub(super) struct Blocks {
    encoder: Encoder,
    kept: Vec<Block>,
    scratch: Vec<u8>,
}

impl Requests {
    /// Those of a plan; none if it does not use HTTP/2.
    pub(in super::super) fn new(plan: &Plan) -> Requests {
        let kinds = plan.requests.iter().filter(|_| plan.protocol.has_streams());
        Requests {
            scheme: match plan.tls {
                Some(_) => b"https",
                None => b"http",
            },
            kinds: kinds.map(|it| Rendered::new(it, plan)).collect(),
        }
    }

    /// The content of requests of this kind.
    #[inline]
    pub(super) fn content(&self, kind: usize) -> &[u8] {
        self.kinds.get(kind).map_or(&[], |it| &it.content)
    }

    /// How many header blocks a connection keeps.
    fn kept(&self) -> usize {
        self.kinds.len().clamp(1, KEPT_MAX)
    }
}

impl Rendered {
    fn new(request: &Request, plan: &Plan) -> Rendered {
        let mut authority = request.authority(&plan.address);
        let mut section = String::new();
        for (name, value) in &request.field_lines {
            // As `:authority`, whether the plan or a field line states it (RFC 9113 8.3.1).
            match name.eq_ignore_ascii_case("host") {
                true => authority.clone_from(value),
                false => section.push_str(&format!("{name}: {value}\r\n")),
            }
        }
        if let Some(content) = &request.content {
            section.push_str(&format!("content-length: {}\r\n", content.len()));
        }
        Rendered {
            method: request.method.clone().into_bytes(),
            authority: authority.into_bytes(),
            path: request.target.clone().into_bytes(),
            section: section.into_bytes(),
            content: request.content.clone().unwrap_or_default(),
        }
    }
}

impl Blocks {
    pub(super) fn new(requests: &Requests) -> Blocks {
        let mut kept = Vec::new();
        kept.resize_with(requests.kept(), Block::default);
        Blocks {
            encoder: Encoder::new(),
            kept,
            scratch: Vec::new(),
        }
    }

    /// The server's table has this size.
    pub(super) fn set_table_bytes_max(&mut self, bytes: usize) {
        self.encoder.set_table_bytes_max(bytes);
    }

    /// The header block of the next request, which is of this kind.
    #[inline]
    pub(super) fn next(&mut self, requests: &Requests, kind: usize) -> &[u8] {
        let generation = self.encoder.generation();
        let place = kind % self.kept.len().max(1);
        let is_known = |it: &Block| it.kind == kind && it.generation == Some(generation);
        match self.kept.get(place) {
            Some(block) if is_known(block) => {}
            _ => self.encode(requests, kind, place),
        }
        self.kept.get(place).map_or(&[], |it| &it.bytes)
    }

    /// Encodes a request. A block that comes out twice alike, without a change of the table, comes out so again.
    fn encode(&mut self, requests: &Requests, kind: usize, place: usize) {
        let (Some(request), Some(block)) = (requests.kinds.get(kind), self.kept.get_mut(place))
        else {
            return;
        };
        let before = self.encoder.generation();
        self.scratch.clear();
        self.encoder.request(
            &request.method,
            requests.scheme,
            &request.authority,
            &request.path,
            &request.section,
            &mut self.scratch,
        );
        let is_same = block.kind == kind && block.bytes == self.scratch;
        block.generation = (is_same && self.encoder.generation() == before).then_some(before);
        block.kind = kind;
        std::mem::swap(&mut block.bytes, &mut self.scratch);
    }
}
