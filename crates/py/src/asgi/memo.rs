//! Remembers what repeats from request to request of a connection: its addresses and its field section.

use net::Peer;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};
use wire::{FieldLines, RememberedLine, skip_kind};

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
        let made = address_of(py, peer)?;
        if self.by_connection.len() <= connection {
            self.by_connection.resize_with(connection + 1, || None);
        }
        if let Some(known) = self.by_connection.get_mut(connection) {
            *known = Some((*peer, made.clone().unbind()));
        }
        Ok(made)
    }
}

/// `(host, port)`, `(path, None)`, or None for a peer without an address.
pub(super) fn address_of<'py>(py: Python<'py>, peer: &Peer) -> PyResult<Bound<'py, PyAny>> {
    Ok(match peer {
        Peer::Internet(address) => (address.ip().to_string(), address.port())
            .into_pyobject(py)?
            .into_any(),
        Peer::Unix(path) => (*path, py.None()).into_pyobject(py)?.into_any(),
        Peer::Local => py.None().into_bound(py),
    })
}

/// Field sections, line by line, and their lists of headers.
///
/// A client sends most of its fields with each request of a connection, and clients of one kind send the same.
pub(crate) struct Sections {
    /// By connection; several may share a slot.
    known: Box<[Vec<Line>]>,
    /// The slot of the last section.
    last: usize,
    /// The pairs of the current section, and the list of them that was last handed out.
    pairs: Vec<Py<PyTuple>>,
    list: Option<Py<PyList>>,
}

/// A field line, its name in lower case, and the pair of name and value.
type Line = RememberedLine<Py<PyBytes>, Py<PyTuple>>;

/// Sections that a worker remembers: some 3 KB each with a browser's fields.
const SECTIONS: usize = 64;
/// Lines remembered of each section.
const LINES_MAX: usize = 32;

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
    /// The list for a section. Its pairs may be shared, since they cannot be changed. None if the list that was last handed out is as good
    /// as new: it is the same, it was not changed, and it has no more than `references`.
    pub(crate) fn renewed<'py>(
        &mut self,
        py: Python<'py>,
        references: OurReferences,
        connection: usize,
        section: FieldLines<'_>,
    ) -> PyResult<Option<Bound<'py, PyList>>> {
        // Those of a section whose reading failed.
        self.pairs.clear();
        let last = self.known.get(self.last);
        let is_last_kind = last.is_some_and(|lines| skip_kind(lines, section).is_some());
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

    /// Remembers nothing any more.
    pub(super) fn forget(&mut self) {
        self.known.iter_mut().for_each(Vec::clear);
        self.pairs.clear();
        self.list = None;
    }
}

/// Pushes the pairs of a section; `lines` are the remembered ones.
fn read(
    py: Python<'_>,
    section: FieldLines<'_>,
    lines: &mut Vec<Line>,
    pairs: &mut Vec<Py<PyTuple>>,
) -> PyResult<()> {
    let mut rest = section;
    for index in 0.. {
        let known = lines.get_mut(index);
        if let Some(line) = &known
            && let Some(pair) = line.skip_in(&mut rest)
        {
            pairs.push(pair.clone_ref(py));
            continue;
        }
        let Some(next) = rest.next_line() else {
            break;
        };
        let mut other = None;
        let line = match known {
            Some(line) if line.has_name(next.name) => line,
            _ => other.insert(Line::new(next.name, lower_case(py, next.name)?)),
        };
        let pair = [line.of_name().bind(py), &PyBytes::new(py, next.value)];
        let pair = PyTuple::new(py, pair)?.unbind();
        pairs.push(pair.clone_ref(py));
        line.keep(next, pair);
        if let Some(line) = other {
            put(lines, index, line);
        }
    }
    Ok(())
}

fn lower_case(py: Python<'_>, name: &[u8]) -> PyResult<Py<PyBytes>> {
    let lower_case = PyBytes::new_with(py, name.len(), |bytes| {
        bytes.copy_from_slice(name);
        bytes.make_ascii_lowercase();
        Ok(())
    });
    lower_case.map(Bound::unbind)
}

fn put(lines: &mut Vec<Line>, index: usize, line: Line) {
    match lines.get_mut(index) {
        Some(place) => *place = line,
        None if index < LINES_MAX => lines.push(line),
        None => {}
    }
}
