//! Which responses are correct: the expectation for one kind of request, and what its first responses defined.
//!
//! Shared by all threads, so that the first response of the run is the reference for all.

use std::sync::OnceLock;

use wire::{ResponseHead, field_lines};

use super::super::error::ErrorClass;
use super::super::plan::{Expectation, Request};

/// One kind of request, with what is expected of its responses.
pub(in super::super) struct Kind {
    expected: Expectation,
    is_head: bool,
    /// The length of the first response with a correct status.
    first_length: OnceLock<u64>,
    template: OnceLock<Record>,
    first: First,
}

/// Data of the first response.
#[derive(Default)]
pub(in super::super) struct First {
    pub(in super::super) status: OnceLock<u16>,
    pub(in super::super) server_software: OnceLock<String>,
    pub(in super::super) content_bytes: OnceLock<u64>,
}

/// A complete response: its head without the value of Date, and its content.
#[derive(PartialEq, Eq)]
pub(super) struct Record {
    head: Vec<u8>,
    pub(super) content: Vec<u8>,
}

impl Kind {
    pub(in super::super) fn new(request: &Request) -> Kind {
        Kind {
            expected: request.expected.clone(),
            is_head: request.method == "HEAD",
            first_length: OnceLock::new(),
            template: OnceLock::new(),
            first: First::default(),
        }
    }

    pub(in super::super) fn first(&self) -> &First {
        &self.first
    }

    pub(in super::super) fn is_head(&self) -> bool {
        self.is_head
    }

    /// Whether the bytes of the content matter, not only their number.
    pub(super) fn checks_content(&self) -> bool {
        self.expected.is_template || self.expected.content.is_some()
    }

    fn is_right_status(&self, status: u16) -> bool {
        match self.expected.status {
            Some(expected) => status == expected,
            None => (200..300).contains(&status),
        }
    }

    /// A record for a response that may become the template.
    pub(super) fn record(&self, head: &ResponseHead<'_>) -> Option<Box<Record>> {
        let is_wanted = self.expected.is_template && self.template.get().is_none();
        (is_wanted && self.is_right_status(head.status)).then(|| {
            Box::new(Record {
                head: without_date(head),
                content: Vec::new(),
            })
        })
    }

    /// Makes a recorded response the template if there is none; returns whether it equals the template.
    pub(super) fn is_template(&self, record: Record) -> bool {
        match self.template.get() {
            Some(template) => *template == record,
            None => {
                // Another thread may have been first.
                let again = Record {
                    head: record.head.clone(),
                    content: record.content.clone(),
                };
                *self.template.get_or_init(|| record) == again
            }
        }
    }

    /// Whether a head equals that of the template, except for its date.
    pub(super) fn is_same_head(&self, head: &ResponseHead<'_>) -> bool {
        match self.template.get() {
            Some(template) => template.head == without_date(head),
            None => true,
        }
    }

    /// Whether these bytes are the content at this offset.
    pub(super) fn is_same_content(&self, offset: u64, bytes: &[u8]) -> bool {
        let template = self.template.get().map(|it| &it.content);
        let Some(expected) = self.expected.content.as_ref().or(template) else {
            return true;
        };
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        expected
            .get(from..)
            .is_some_and(|rest| rest.starts_with(bytes))
    }

    /// What is wrong with a complete response.
    pub(super) fn error(&self, status: u16, length: u64, is_same: bool) -> Option<ErrorClass> {
        if !self.is_right_status(status) {
            return Some(ErrorClass::WrongStatus);
        }
        match self.expected_length(length) {
            Some(expected) if length < expected => Some(ErrorClass::Short),
            Some(expected) if length > expected => Some(ErrorClass::Long),
            _ if !is_same => Some(ErrorClass::WrongBody),
            _ => None,
        }
    }

    /// The length that a response must have; `length` becomes it if this is the first response.
    fn expected_length(&self, length: u64) -> Option<u64> {
        if self.is_head {
            return None;
        }
        let content = self.expected.content.as_ref();
        let template = self.template.get().map(|it| &it.content);
        match (self.expected.length, content.or(template)) {
            (Some(length), _) => Some(length),
            (None, Some(content)) => Some(content.len() as u64),
            (None, None) if self.expected.is_any_length => None,
            (None, None) => Some(*self.first_length.get_or_init(|| length)),
        }
    }

    pub(in super::super) fn note_first(&self, head: &ResponseHead<'_>) {
        if self.first.status.get().is_none() {
            let is_server = |it: &(&[u8], &[u8])| it.0.eq_ignore_ascii_case(b"server");
            let server = field_lines(head.field_section).find(is_server);
            let value = server.map_or(&[][..], |it| it.1);
            let text = || String::from_utf8_lossy(value).into_owned();
            self.first.server_software.get_or_init(text);
            self.first.status.get_or_init(|| head.status);
        }
    }

    pub(super) fn note_first_content(&self, length: u64) {
        self.first.content_bytes.get_or_init(|| length);
    }
}

/// The bytes of a head without the value of its Date.
fn without_date(head: &ResponseHead<'_>) -> Vec<u8> {
    let mut kept = head.bytes.to_vec();
    let is_date = |it: &(&[u8], &[u8])| it.0.eq_ignore_ascii_case(b"date");
    if let Some((_, value)) = field_lines(head.field_section).find(is_date) {
        // The value is a part of the head, so the difference of the addresses is its offset.
        let at = (value.as_ptr() as usize).wrapping_sub(head.bytes.as_ptr() as usize);
        if at + value.len() <= kept.len() {
            kept.drain(at..at + value.len());
        }
    }
    kept
}
