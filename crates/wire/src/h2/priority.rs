//! The priority of a response, as the client asks for it: the field `priority` and the frame PRIORITY_UPDATE (RFC 9218 4).
//!
//! Both have a Dictionary of Structured Fields (RFC 8941 4.2). One that cannot be parsed is ignored as a whole. In one that can, members that
//! are unknown, out of range or of another type are ignored.

use std::borrow::Cow;

use crate::field::field_lines;
use crate::grammar::{HTAB, SP, is_tchar};

/// The name of the field, in lower case.
const NAME: &[u8] = b"priority";

/// How soon a response is to be sent, among those of its connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Priority {
    /// From 0 to 7; 0 is the most urgent.
    pub urgency: u8,
    /// The client uses parts of the response as they arrive, so that it shares the connection with others that are as urgent.
    pub is_incremental: bool,
}

impl Default for Priority {
    fn default() -> Priority {
        Priority {
            urgency: 3,
            is_incremental: false,
        }
    }
}

impl Priority {
    /// The priority that a value of the field says; None if the value is malformed. Cost: one look at each octet; no allocation.
    pub fn parse(value: &[u8]) -> Option<Priority> {
        let mut priority = Priority::default();
        let mut rest = Rest(value);
        rest.skip(is_sp);
        while !rest.is_empty() {
            let key = rest.key()?;
            let value = rest.member()?;
            match (key, value) {
                (b"u", Value::Integer(urgency @ 0..=7)) => priority.urgency = urgency as u8,
                (b"i", Value::Boolean(is_incremental)) => priority.is_incremental = is_incremental,
                // The last member of a key counts, whether or not it is ignored.
                (b"u", _) => priority.urgency = Priority::default().urgency,
                (b"i", _) => priority.is_incremental = Priority::default().is_incremental,
                _ => {}
            }
            rest.next_member()?;
        }
        Some(priority)
    }

    /// The same for a field section with names in lower case; None also if it has no such field. Several lines are one value.
    ///
    /// Cost: one search for the name; a copy if there are several lines.
    pub fn of(field_section: &[u8]) -> Option<Priority> {
        memchr::memmem::find(field_section, NAME)?;
        let mut lines = field_lines(field_section);
        let mut value: Option<Cow<'_, [u8]>> = None;
        while let Some(line) = lines.next_line() {
            if line.name != NAME {
                continue;
            }
            match &mut value {
                None => value = Some(Cow::Borrowed(line.value)),
                Some(value) => {
                    let value = value.to_mut();
                    value.extend_from_slice(b", ");
                    value.extend_from_slice(line.value);
                }
            }
        }
        Priority::parse(&value?)
    }
}

/// The value of a member, as far as it matters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Value {
    Integer(i64),
    Boolean(bool),
    Other,
}

/// What has not been parsed. Each function takes what it is named for from the start; None if it is malformed.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn skip(&mut self, is_meant: fn(u8) -> bool) {
        self.take_while(is_meant);
    }

    fn take_while(&mut self, is_meant: fn(u8) -> bool) -> &'a [u8] {
        let end = self.0.iter().position(|octet| !is_meant(*octet));
        let (taken, rest) = self.0.split_at(end.unwrap_or(self.0.len()));
        self.0 = rest;
        taken
    }

    /// Takes this octet, if it is next.
    fn takes(&mut self, octet: u8) -> bool {
        match self.0 {
            [first, rest @ ..] if *first == octet => {
                self.0 = rest;
                true
            }
            _ => false,
        }
    }

    fn octet(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// RFC 8941 4.2.3.3.
    fn key(&mut self) -> Option<&'a [u8]> {
        match self.0 {
            [b'a'..=b'z' | b'*', ..] => Some(self.take_while(is_key)),
            _ => None,
        }
    }

    /// What follows the key of a member (RFC 8941 4.2.2): a value, or nothing, which is true; and its parameters.
    fn member(&mut self) -> Option<Value> {
        let value = match self.takes(b'=') {
            false => Value::Boolean(true),
            true if self.takes(b'(') => self.inner_list()?,
            true => self.bare_item()?,
        };
        self.parameters()?;
        Some(value)
    }

    /// The comma before the next member, or the end. No comma is at the end.
    fn next_member(&mut self) -> Option<()> {
        self.skip(is_ows);
        if self.is_empty() {
            return Some(());
        }
        let has_comma = self.takes(b',');
        self.skip(is_ows);
        (has_comma && !self.is_empty()).then_some(())
    }

    /// RFC 8941 4.2.1.2, after the parenthesis.
    fn inner_list(&mut self) -> Option<Value> {
        loop {
            self.skip(is_sp);
            if self.takes(b')') {
                return Some(Value::Other);
            }
            self.bare_item()?;
            self.parameters()?;
            match self.0 {
                [SP | b')', ..] => {}
                _ => return None,
            }
        }
    }

    /// RFC 8941 4.2.3.2.
    fn parameters(&mut self) -> Option<()> {
        while self.takes(b';') {
            self.skip(is_sp);
            self.key()?;
            if self.takes(b'=') {
                self.bare_item()?;
            }
        }
        Some(())
    }

    /// RFC 8941 4.2.3.1.
    fn bare_item(&mut self) -> Option<Value> {
        match *self.0.first()? {
            b'-' | b'0'..=b'9' => self.number(),
            b'"' => self.string(),
            b':' => self.octets(),
            b'?' => self.boolean(),
            b'*' | b'A'..=b'Z' | b'a'..=b'z' => {
                self.skip(is_token_octet);
                Some(Value::Other)
            }
            _ => None,
        }
    }

    /// An integer or a decimal number (RFC 8941 4.2.4).
    fn number(&mut self) -> Option<Value> {
        let is_negative = self.takes(b'-');
        let digits = self.take_while(is_digit);
        if !self.takes(b'.') {
            let is_valid = (1..=15).contains(&digits.len());
            let digit = |number: i64, digit: &u8| number * 10 + i64::from(digit - b'0');
            let number = is_valid.then(|| digits.iter().fold(0, digit))?;
            return Some(Value::Integer(if is_negative { -number } else { number }));
        }
        let fraction = self.take_while(is_digit);
        let is_valid = (1..=12).contains(&digits.len()) && (1..=3).contains(&fraction.len());
        is_valid.then_some(Value::Other)
    }

    /// RFC 8941 4.2.5.
    fn string(&mut self) -> Option<Value> {
        self.octet()?;
        loop {
            match self.octet()? {
                b'"' => return Some(Value::Other),
                b'\\' => match self.octet()? {
                    b'"' | b'\\' => {}
                    _ => return None,
                },
                b' '..=b'~' => {}
                _ => return None,
            }
        }
    }

    /// A sequence of octets in base64 (RFC 8941 4.2.7).
    fn octets(&mut self) -> Option<Value> {
        self.octet()?;
        self.skip(|octet| octet.is_ascii_alphanumeric() || matches!(octet, b'+' | b'/' | b'='));
        self.takes(b':').then_some(Value::Other)
    }

    /// RFC 8941 4.2.8.
    fn boolean(&mut self) -> Option<Value> {
        self.octet()?;
        match self.octet()? {
            b'0' => Some(Value::Boolean(false)),
            b'1' => Some(Value::Boolean(true)),
            _ => None,
        }
    }
}

fn is_sp(octet: u8) -> bool {
    octet == SP
}

fn is_ows(octet: u8) -> bool {
    matches!(octet, SP | HTAB)
}

fn is_digit(octet: u8) -> bool {
    octet.is_ascii_digit()
}

fn is_key(octet: u8) -> bool {
    matches!(octet, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'.' | b'*')
}

fn is_token_octet(octet: u8) -> bool {
    is_tchar(octet) || matches!(octet, b':' | b'/')
}
