//! The items of a field section, remembered line by line.
//!
//! A client sends most of its fields with each request of a connection, and clients of one kind send the same fields. So an environ with
//! the items of a section is kept, and only the differing lines of the next section are read.

use std::collections::HashMap;
use std::net::IpAddr;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use wire::{FieldLines, LINES_OF_KIND, RememberedLine, Version, skip_kind};

use crate::ffi;

/// Longer sections are read each time.
const SECTION_BYTES_MAX: usize = 4096;
/// Number of field names whose keys are remembered. Peers choose the names, so it is limited.
const KEYS_MAX: usize = 256;
const KEY_BYTES_MAX: usize = 64;

/// A key of the environ, and a value that differs from the one before.
pub(super) type Item = (Py<PyString>, Py<PyString>);

/// The last section of one kind of client.
pub(super) struct Section {
    /// An environ with its items, except values that are not remembered.
    pub(super) environ: Py<PyDict>,
    /// The client whose address it holds.
    pub(super) client: Option<IpAddr>,
    /// The version that it holds.
    pub(super) version: Option<Version>,
    /// The whole section, if all of it is remembered; otherwise empty.
    whole: Vec<u8>,
    lines: Vec<Line>,
    /// Lines that became no items because their name has an underscore.
    pub(super) dropped: u64,
}

/// A field line and the key of its item, `None` when it has none. The value is in the environ, if it is remembered.
type Line = RememberedLine<Option<Py<PyString>>, ()>;

/// The result of reading a section.
pub(super) struct Learned<'py> {
    pub(super) environ: Bound<'py, PyDict>,
    /// What to remember, if it can be remembered.
    pub(super) section: Option<Section>,
    pub(super) dropped: u64,
}

impl Section {
    /// Whether `section` is exactly the one that is remembered.
    #[inline]
    pub(super) fn is_same(&self, section: FieldLines<'_>) -> bool {
        !self.whole.is_empty() && wire::is_same(&self.whole, section.rest())
    }

    /// Remembers the whole of `section`, whose lines are known.
    fn keep_whole(&mut self, section: FieldLines<'_>) {
        self.whole.clear();
        if self.lines.iter().all(Line::is_kept) {
            self.whole.extend_from_slice(section.rest());
        }
    }

    /// What follows the lines that identify the kind of client, in a section that starts with them.
    #[inline]
    pub(super) fn skip_kind<'a>(&self, section: FieldLines<'a>) -> Option<FieldLines<'a>> {
        skip_kind(&self.lines, section)
    }

    /// Reads what differs from the last section into `items`, and remembers it. `after_kind` is the result of [`Section::skip_kind`], if
    /// that was called. Returns whether anything remembered has changed, or `None` if the section has other names: this one is useless
    /// then.
    #[inline]
    pub(super) fn recall(
        &mut self,
        py: Python<'_>,
        section: FieldLines<'_>,
        after_kind: Option<FieldLines<'_>>,
        items: &mut Vec<Item>,
    ) -> PyResult<Option<bool>> {
        let mut has_changed = false;
        let (mut rest, known) = match after_kind {
            Some(rest) => (rest, LINES_OF_KIND),
            None => (section, 0),
        };
        for line in self.lines.iter_mut().skip(known) {
            if line.skip_in(&mut rest).is_some() {
                continue;
            }
            let Some(next) = rest.next_line().filter(|next| line.has_name(next.name)) else {
                return Ok(None);
            };
            let key = line.of_name().as_ref().map(|key| key.clone_ref(py));
            let item = key.map(|key| (key, ffi::latin1(py, next.value)));
            // From here until all lines are read, the section is not the one that was remembered.
            self.whole.clear();
            line.keep(next, ());
            if let Some((key, value)) = item {
                if line.is_kept() {
                    self.environ.bind(py).set_item(&key, &value)?;
                    has_changed = true;
                }
                items.push((key, value.unbind()));
            }
        }
        if !items.is_empty() {
            self.keep_whole(section);
        }
        Ok(rest.is_empty().then_some(has_changed))
    }
}

/// The keys of field names.
#[derive(Default)]
pub(super) struct Keys(HashMap<Box<[u8]>, Py<PyString>>);

impl Keys {
    /// Reads all of a section into a copy of `template`, which holds the address of `client` and `version`.
    pub(super) fn learn<'py>(
        &mut self,
        template: &Bound<'py, PyDict>,
        (client, version): (Option<IpAddr>, Option<Version>),
        section: FieldLines<'_>,
    ) -> PyResult<Learned<'py>> {
        let py = template.py();
        let environ = template.copy()?;
        let (mut lines, mut dropped, mut is_repeated) = (Vec::new(), 0, false);
        let mut rest = section;
        while let Some(next) = rest.next_line() {
            let (name, value) = (next.name, next.value);
            // A name with an underscore would get the key of one with a hyphen, which a proxy may have set or removed.
            let key = (!name.contains(&b'_')).then(|| self.key(py, name));
            match &key {
                Some(key) => is_repeated |= !set_first(&environ, key, name, value)?,
                None => dropped += 1,
            }
            let mut line = Line::new(name, key.map(Bound::unbind));
            line.keep(next, ());
            lines.push(line);
        }
        if is_repeated || section.rest().len() > SECTION_BYTES_MAX {
            return Ok(Learned {
                environ,
                section: None,
                dropped,
            });
        }
        let own = environ.copy()?;
        for line in lines.iter().filter(|line| !line.is_kept()) {
            if let Some(key) = line.of_name() {
                own.set_item(key, pyo3::intern!(py, ""))?;
            }
        }
        let mut learned = Section {
            environ: own.unbind(),
            client,
            version,
            whole: Vec::new(),
            lines,
            dropped,
        };
        learned.keep_whole(section);
        Ok(Learned {
            environ,
            section: Some(learned),
            dropped,
        })
    }

    fn key<'py>(&mut self, py: Python<'py>, name: &[u8]) -> Bound<'py, PyString> {
        if let Some(key) = self.0.get(name) {
            return key.bind(py).clone();
        }
        // Not interned: clients choose the names, and CPython 3.12.0 to 3.12.6 keep what is interned for ever (python/cpython#113993).
        let key = PyString::new(py, &key_of(name));
        if name.len() <= KEY_BYTES_MAX {
            if self.0.len() >= KEYS_MAX {
                self.0.clear();
            }
            self.0.insert(name.into(), key.clone().unbind());
        }
        key
    }
}

/// Sets the item of a field line, or appends to that of earlier lines with this name. Returns whether it is the first.
fn set_first(
    environ: &Bound<'_, PyDict>,
    key: &Bound<'_, PyString>,
    name: &[u8],
    value: &[u8],
) -> PyResult<bool> {
    let value = ffi::latin1(environ.py(), value);
    let Some(before) = environ.get_item(key)? else {
        environ.set_item(key, value)?;
        return Ok(true);
    };
    let separator = match name.eq_ignore_ascii_case(b"cookie") {
        true => "; ",
        false => ",",
    };
    environ.set_item(key, before.add(separator)?.add(value)?)?;
    Ok(false)
}

/// `HTTP_` and the name in upper case; two have no prefix (RFC 3875 section 4.1).
fn key_of(name: &[u8]) -> String {
    let in_capitals = |byte: &u8| match byte {
        b'-' => '_',
        other => char::from(other.to_ascii_uppercase()),
    };
    let key: String = name.iter().map(in_capitals).collect();
    match key.as_str() {
        "CONTENT_TYPE" | "CONTENT_LENGTH" => key,
        _ => format!("HTTP_{key}"),
    }
}
