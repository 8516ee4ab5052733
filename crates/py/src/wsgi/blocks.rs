//! What an application returned: an iterable of blocks.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyIterator, PyList, PyTuple};
use server::Head;

use super::file_wrapper::{FileWrapper, Remains};
use super::log;
use crate::ffi;
use crate::run::memory::append;

/// The content of a response, as far as it is known after the first block.
pub(super) enum Returned<'py> {
    /// All of it.
    Whole(Content<'py>),
    /// Its first block, which is not empty; more may follow.
    Blocks(Bound<'py, PyBytes>, Blocks<'py>),
    /// No block at all.
    Nothing(Blocks<'py>),
    /// What is left of a plain file.
    File(Box<Remains>),
}

/// Content that is complete.
pub(super) enum Content<'py> {
    Block(Bound<'py, PyBytes>),
    Joined(Vec<u8>),
}

impl Content<'_> {
    pub(super) fn as_bytes(&self) -> &[u8] {
        match self {
            Content::Block(block) => block.as_bytes(),
            Content::Joined(bytes) => bytes,
        }
    }
}

impl<'py> Returned<'py> {
    /// No content.
    pub(super) fn empty() -> Returned<'py> {
        Returned::Whole(Content::Joined(Vec::new()))
    }

    /// Reads what the application returned. Lists and tuples never have to be waited for or closed. Of any other iterable the first block
    /// is read.
    ///
    /// # Errors
    /// Any error of the iterable, which is then closed; `TypeError` for a block that is not bytes.
    #[inline]
    pub(super) fn read(returned: Bound<'py, PyAny>, head: Head<'_>) -> PyResult<Returned<'py>> {
        if let Ok(list) = returned.cast_exact::<PyList>() {
            if list.len() == 1 {
                return Ok(Returned::Whole(Content::Block(block(list.get_item(0)?)?)));
            }
            return joined(list.iter());
        }
        if let Ok(tuple) = returned.cast_exact::<PyTuple>() {
            return joined(tuple.iter());
        }
        Returned::read_iterable(returned, head)
    }

    fn read_iterable(returned: Bound<'py, PyAny>, head: Head<'_>) -> PyResult<Returned<'py>> {
        let title = || log::title(head);
        if let Ok(wrapper) = returned.cast_exact::<FileWrapper>() {
            let remains = wrapper.get().remains(returned.py());
            if !matches!(remains, Ok(None)) {
                close(&returned, title);
            }
            if let Some(remains) = remains? {
                return Ok(Returned::File(Box::new(remains)));
            }
        }
        let mut blocks = Blocks::of(returned, title)?;
        match blocks.next() {
            Ok(Some(first)) => Ok(Returned::Blocks(first, blocks)),
            Ok(None) => {
                blocks.is_over = true;
                Ok(Returned::Nothing(blocks))
            }
            Err(error) => {
                blocks.close(title);
                Err(error)
            }
        }
    }
}

fn joined<'py>(items: impl Iterator<Item = Bound<'py, PyAny>>) -> PyResult<Returned<'py>> {
    let mut content = Vec::new();
    for item in items {
        append(&mut content, block(item)?.as_bytes())?;
    }
    Ok(Returned::Whole(Content::Joined(content)))
}

#[inline]
fn block(item: Bound<'_, PyAny>) -> PyResult<Bound<'_, PyBytes>> {
    item.cast_into::<PyBytes>().map_err(|error| {
        let kind = error.into_inner().get_type().name();
        let kind = kind.map_or_else(|_| "something else".to_owned(), |kind| kind.to_string());
        PyTypeError::new_err(format!("an application's blocks are bytes, not {kind}"))
    })
}

/// An iterable of blocks, which must be closed.
pub(super) struct Blocks<'py> {
    /// It is our file wrapper, of which an application may send a part by its Content-Length.
    pub(super) is_file: bool,
    /// It has no more blocks.
    is_over: bool,
    iterable: Bound<'py, PyAny>,
    iterator: Bound<'py, PyIterator>,
}

impl<'py> Blocks<'py> {
    fn of(iterable: Bound<'py, PyAny>, title: impl Fn() -> String) -> PyResult<Blocks<'py>> {
        match iterable.try_iter() {
            Ok(iterator) => Ok(Blocks {
                is_file: iterable.is_exact_instance_of::<FileWrapper>(),
                is_over: false,
                iterable,
                iterator,
            }),
            Err(error) => {
                close(&iterable, title);
                Err(error)
            }
        }
    }

    /// Resumes one that was kept.
    pub(super) fn bind(py: Python<'py>, kept: &KeptBlocks) -> Blocks<'py> {
        Blocks {
            is_file: kept.is_file,
            is_over: kept.is_over,
            iterable: kept.iterable.bind(py).clone(),
            iterator: kept.iterator.bind(py).clone(),
        }
    }

    /// Keeps it, to be resumed later.
    pub(super) fn keep(self) -> KeptBlocks {
        KeptBlocks {
            is_file: self.is_file,
            is_over: self.is_over,
            iterable: self.iterable.unbind(),
            iterator: self.iterator.unbind(),
        }
    }

    /// The next block that is not empty; `None` at the end.
    ///
    /// # Errors
    /// Any error of the iterator; `TypeError` for a block that is not bytes.
    pub(super) fn next(&self) -> PyResult<Option<Bound<'py, PyBytes>>> {
        while let Some(item) = ffi::next_from_thread(&self.iterator)? {
            let block = block(item)?;
            if !block.as_bytes().is_empty() {
                return Ok(Some(block));
            }
        }
        Ok(None)
    }

    /// What follows content that is complete by its length: nothing, usually, but a generator may have work to do after its last block. Of a
    /// file, nothing more is read.
    ///
    /// # Errors
    /// As [`Blocks::next`].
    pub(super) fn rest(&self) -> PyResult<Option<Bound<'py, PyBytes>>> {
        match self.is_file || self.is_over {
            true => Ok(None),
            false => self.next(),
        }
    }

    /// Closes the iterable that the application returned: calls its own `close`, not its iterator's. `title` names the request, for the log.
    pub(super) fn close(self, title: impl Fn() -> String) {
        close(&self.iterable, title);
    }
}

/// [`Blocks`] that are resumed later.
pub(super) struct KeptBlocks {
    pub(super) is_file: bool,
    is_over: bool,
    iterable: Py<PyAny>,
    iterator: Py<PyIterator>,
}

fn close(iterable: &Bound<'_, PyAny>, title: impl Fn() -> String) {
    let py = iterable.py();
    let close = match iterable.getattr_opt(pyo3::intern!(py, "close")) {
        Ok(Some(close)) => close,
        Ok(None) => return,
        Err(error) => return log::failed_to_close(py, &title(), &error),
    };
    if let Err(error) = ffi::call_from_thread(py, close.as_unbound(), []) {
        log::failed_to_close(py, &title(), &error);
    }
}
