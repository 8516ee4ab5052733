//! What repeats from request to request of a connection, remembered: its addresses and its field section.

use net::Peer;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

use super::fresh::Fresh;

/// The addresses of the connections, as applications see them.
#[derive(Default)]
pub(crate) struct Addresses {
    by_connection: Vec<Option<(Peer, Py<PyAny>)>>,
}

impl Addresses {
    /// `(host, port)`, or None for a peer without an address.
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

/// Field sections and their lists of headers.
///
/// A client sends the same fields with each request of a connection, and clients of one kind send the same.
pub(crate) struct Sections {
    /// By connection, of which several may share a place.
    known: Box<[Option<Section>]>,
    /// The place of the section that came last.
    last: usize,
}

struct Section {
    bytes: Vec<u8>,
    headers: Fresh<PyList>,
}

/// Sections that a worker remembers: some 3 KB each with a browser's fields.
const SECTIONS: usize = 64;
/// Longer sections are decoded each time.
const SECTION_BYTES_MAX: usize = 4096;
/// What only one client should know: how long a comparison takes must not tell another. Not remembered, see `wire::SectionMemo`.
const CREDENTIALS: [&[u8]; 3] = [b"cookie", b"authorization", b"proxy-authorization"];

impl Default for Sections {
    fn default() -> Sections {
        Sections {
            known: (0..SECTIONS).map(|_| None).collect(),
            last: 0,
        }
    }
}

impl Sections {
    /// The list for a section, of pairs that may be shared: they cannot be changed. None when the list that was given last is as good as new.
    pub(crate) fn renewed<'py>(
        &mut self,
        py: Python<'py>,
        connection: usize,
        section: &[u8],
    ) -> PyResult<Option<Bound<'py, PyList>>> {
        if let Some(Some(last)) = self.known.get_mut(self.last) {
            if wire::is_same(&last.bytes, section) {
                return last.headers.renewed(py);
            }
            last.headers.forget();
        }
        let own = connection % SECTIONS;
        if let Some(Some(known)) = self.known.get_mut(own)
            && wire::is_same(&known.bytes, section)
        {
            self.last = own;
            return known.headers.renewed(py);
        }
        let (headers, has_credentials) = decoded(py, section)?;
        if section.len() > SECTION_BYTES_MAX || has_credentials {
            return Ok(Some(headers));
        }
        let bytes = section.to_vec();
        let mut known = Section {
            bytes,
            headers: Fresh::new(headers.unbind()),
        };
        let headers = known.headers.renewed(py)?;
        if let Some(place) = self.known.get_mut(own) {
            *place = Some(known);
            self.last = own;
        }
        Ok(headers)
    }
}

/// The pairs of a section, and whether there are credentials among them.
fn decoded<'py>(py: Python<'py>, section: &[u8]) -> PyResult<(Bound<'py, PyList>, bool)> {
    let headers = PyList::empty(py);
    let mut has_credentials = false;
    for (name, value) in wire::field_lines(section) {
        has_credentials |= CREDENTIALS.iter().any(|own| name.eq_ignore_ascii_case(own));
        let name = PyBytes::new_with(py, name.len(), |bytes| {
            bytes.copy_from_slice(name);
            bytes.make_ascii_lowercase();
            Ok(())
        })?;
        headers.append(PyTuple::new(py, [name, PyBytes::new(py, value)])?)?;
    }
    Ok((headers, has_credentials))
}
