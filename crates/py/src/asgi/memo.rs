//! What repeats from request to request of a connection, remembered: its addresses and its field section.

use net::Peer;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

use crate::ffi;
use crate::ffi::reuse::OurReferences;

/// The addresses of the connections, as applications see them.
#[derive(Default)]
pub(crate) struct Addresses {
    by_connection: Vec<Option<(Peer, Py<PyAny>)>>,
}

impl Addresses {
    /// `(host, port)`, `(path, None)`, or None for a peer without an address.
    pub(crate) fn address<'py>(
        &mut self,
        py: Python<'py>,
        connection: usize,
        peer: &Peer,
    ) -> PyResult<Bound<'py, PyAny>> {
        let known = self.by_connection.get(connection);
        if let Some(Some((known, address))) = known
            && known == peer
        {
            return Ok(address.bind(py).clone());
        }
        let made = match peer {
            Peer::Internet(address) => (address.ip().to_string(), address.port())
                .into_pyobject(py)?
                .into_any(),
            Peer::Unix(path) => (*path, py.None()).into_pyobject(py)?.into_any(),
            Peer::Local => py.None().into_bound(py),
        };
        if self.by_connection.len() <= connection {
            self.by_connection.resize_with(connection + 1, || None);
        }
        if let Some(known) = self.by_connection.get_mut(connection) {
            *known = Some((*peer, made.clone().unbind()));
        }
        Ok(made)
    }
}

/// Field sections, line by line, and their lists of headers.
///
/// A client sends most of its fields with each request of a connection, and clients of one kind send the same.
pub(crate) struct Sections {
    /// By connection, of which several may share a place.
    known: Box<[Vec<Line>]>,
    /// The place of the section that came last.
    last: usize,
    /// The pairs of the section at hand, and the list of them that was given last.
    pairs: Vec<Py<PyTuple>>,
    list: Option<Py<PyList>>,
}

/// A field line and its pair of name and value. Of one that is not known to be harmless ([`wire::harmless`]) only the name is kept.
struct Line {
    /// As it was received, with its end; the name alone as long as there is no pair.
    bytes: Vec<u8>,
    name: Py<PyBytes>,
    name_bytes: usize,
    is_harmless: bool,
    pair: Option<Py<PyTuple>>,
}

/// Sections that a worker remembers: some 3 KB each with a browser's fields.
const SECTIONS: usize = 64;
/// Lines that are remembered of each, and the longest such line.
const LINES_MAX: usize = 32;
const LINE_BYTES_MAX: usize = 512;
/// Clients whose sections begin with the same lines are taken for one kind.
const LINES_OF_KIND: usize = 2;

impl Default for Sections {
    fn default() -> Sections {
        Sections {
            known: (0..SECTIONS).map(|_| Vec::new()).collect(),
            last: 0,
            pairs: Vec::new(),
            list: None,
        }
    }
}

impl Sections {
    /// The list for a section, of pairs that may be shared: they cannot be changed. None when the list that was given last is as good as
    /// new: it is the same, nobody has changed it, and it has no more than `references`.
    pub(crate) fn renewed<'py>(
        &mut self,
        py: Python<'py>,
        references: OurReferences,
        connection: usize,
        section: &[u8],
    ) -> PyResult<Option<Bound<'py, PyList>>> {
        let is_last_kind = self
            .known
            .get(self.last)
            .is_some_and(|lines| begins_with(section, lines));
        if !is_last_kind {
            self.last = connection % SECTIONS;
        }
        if let Some(lines) = self.known.get_mut(self.last) {
            read(py, section, lines, &mut self.pairs)?;
        }
        if let Some(list) = &self.list
            && references.are_all(py, list)
            && ffi::holds(list.bind(py), &self.pairs)
        {
            self.pairs.clear();
            return Ok(None);
        }
        let list = PyList::new(py, self.pairs.drain(..))?;
        self.list = Some(list.clone().unbind());
        Ok(Some(list))
    }
}

fn begins_with(mut section: &[u8], lines: &[Line]) -> bool {
    let mut first = lines.iter().take(LINES_OF_KIND);
    !lines.is_empty()
        && first.all(|line| {
            let rest = line.strip(section);
            section = rest.unwrap_or_default();
            rest.is_some()
        })
}

/// Pushes the pairs of a section, of which `lines` is what is remembered.
fn read(
    py: Python<'_>,
    section: &[u8],
    lines: &mut Vec<Line>,
    pairs: &mut Vec<Py<PyTuple>>,
) -> PyResult<()> {
    let mut rest = section;
    for index in 0.. {
        let known = lines.get_mut(index);
        if let Some(line) = &known
            && let Some(after) = line.strip(rest)
            && let Some(pair) = &line.pair
        {
            pairs.push(pair.clone_ref(py));
            rest = after;
            continue;
        }
        let mut following = wire::field_lines(rest);
        let Some((name, value)) = following.next() else {
            break;
        };
        let mut other = None;
        let line = match known {
            Some(line) if line.has_name(name) => line,
            _ => other.insert(Line::new(py, name)?),
        };
        let pair = [line.name.bind(py), &PyBytes::new(py, value)];
        let pair = PyTuple::new(py, pair)?.unbind();
        pairs.push(pair.clone_ref(py));
        let end = rest.len() - following.rest().len();
        line.keep(rest.get(..end).unwrap_or_default(), pair);
        rest = following.rest();
        if let Some(line) = other {
            put(lines, index, line);
        }
    }
    Ok(())
}

fn put(lines: &mut Vec<Line>, index: usize, line: Line) {
    match lines.get_mut(index) {
        Some(place) => *place = line,
        None if index < LINES_MAX => lines.push(line),
        None => {}
    }
}

impl Line {
    fn new(py: Python<'_>, name: &[u8]) -> PyResult<Line> {
        let lower_case = PyBytes::new_with(py, name.len(), |bytes| {
            bytes.copy_from_slice(name);
            bytes.make_ascii_lowercase();
            Ok(())
        })?;
        Ok(Line {
            bytes: name.to_vec(),
            name: lower_case.unbind(),
            name_bytes: name.len(),
            is_harmless: wire::is_harmless_field(name),
            pair: None,
        })
    }

    fn has_name(&self, name: &[u8]) -> bool {
        self.bytes.get(..self.name_bytes) == Some(name)
    }

    /// Keeps a line of that name and its pair, if it may be remembered.
    fn keep(&mut self, bytes: &[u8], pair: Py<PyTuple>) {
        if !self.is_harmless || bytes.len() > LINE_BYTES_MAX {
            self.pair = None;
            return;
        }
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
        self.pair = Some(pair);
    }

    /// What follows this very line in a section that begins with it.
    #[inline]
    fn strip<'a>(&self, section: &'a [u8]) -> Option<&'a [u8]> {
        let (start, rest) = section.split_at_checked(self.bytes.len())?;
        (self.pair.is_some() && wire::is_same(start, &self.bytes)).then_some(rest)
    }
}
