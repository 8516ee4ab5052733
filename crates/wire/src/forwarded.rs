//! What proxies say of the requests that they pass on: Forwarded (RFC 7239), and the fields X-Forwarded-*, which no RFC defines.
//!
//! Each proxy appends what it knows of its own peer. So a list is read from its right end, which the nearest proxy wrote: as long as an entry
//! names a proxy that is trusted too, that proxy wrote the entry on its left. The first entry that does not is the client, and what is further left is
//! what the client sent. It is never read.
//!
//! Which peers are trusted is the caller's decision, and so is which of the fields a proxy is known to set: one that it passes on is the
//! client's word.
//!
//! | field | of it is used |
//! | --- | --- |
//! | X-Forwarded-For | the client, as above. An entry that is no node makes all fields X-Forwarded-* useless |
//! | X-Forwarded-Proto, -Host, -Port, -Prefix | the value as far from the right as the client; the leftmost, if there are fewer. One that is not valid is ignored |
//! | Forwarded | the client, and `proto` and `host` of its element. A malformed line among those that are read makes the field useless |
//! | both | what both say, or one of them. If they differ, or one is useless, neither is used |

mod element;
mod node;
mod value;

use std::borrow::Cow;

use self::element::{Element, elements};
pub use self::node::Node;
pub use self::value::Scheme;
use self::value::{is_host, port, prefix};
use crate::field::FieldLines;
use crate::grammar::trim_ows;

/// A field that proxies set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ForwardingField {
    /// Forwarded (RFC 7239).
    Forwarded,
    /// X-Forwarded-For: addresses.
    For,
    /// X-Forwarded-Proto: the scheme.
    Proto,
    /// X-Forwarded-Host: what Host was.
    Host,
    /// X-Forwarded-Port: the port that the client connected to.
    Port,
    /// X-Forwarded-Prefix: what the proxy has removed from the path.
    Prefix,
}

/// How a name is spelled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spelling {
    /// With hyphens.
    Usual,
    /// With an underscore in place of a hyphen. No proxy writes that, and some frameworks confuse the two.
    Underscore,
}

impl ForwardingField {
    /// The field of that name.
    pub fn of(name: &[u8]) -> Option<(ForwardingField, Spelling)> {
        let spelling = match name.contains(&b'_') {
            true => Spelling::Underscore,
            false => Spelling::Usual,
        };
        let known: [(&[u8], ForwardingField); 6] = [
            (b"forwarded", ForwardingField::Forwarded),
            (b"x-forwarded-for", ForwardingField::For),
            (b"x-forwarded-proto", ForwardingField::Proto),
            (b"x-forwarded-host", ForwardingField::Host),
            (b"x-forwarded-port", ForwardingField::Port),
            (b"x-forwarded-prefix", ForwardingField::Prefix),
        ];
        let mut fields = known.into_iter();
        let field = fields.find(|(known, _)| is_spelled(name, known))?.1;
        Some((field, spelling))
    }
}

/// Whether `name` is `known`, in any case and with underscores in place of hyphens.
pub fn is_spelled(name: &[u8], known: &[u8]) -> bool {
    let is_like = |(byte, known): (&u8, &u8)| {
        byte.eq_ignore_ascii_case(known) || *byte == b'_' && *known == b'-'
    };
    name.len() == known.len() && name.iter().zip(known).all(is_like)
}

/// A set of fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ForwardingFields(u8);

impl ForwardingFields {
    /// The set with one field more.
    #[must_use]
    pub const fn with(self, field: ForwardingField) -> ForwardingFields {
        ForwardingFields(self.0 | 1 << field as u8)
    }

    /// Whether it has a field.
    pub const fn has(self, field: ForwardingField) -> bool {
        self.0 & 1 << field as u8 != 0
    }
}

/// What trusted proxies say of a request; nothing, where they say nothing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Claims<'a> {
    /// Who sent the request to the first trusted proxy.
    pub client: Option<Node>,
    /// The scheme that the client used.
    pub scheme: Option<Scheme>,
    /// The host that the client asked for, with its port if it named one.
    pub host: Option<Cow<'a, [u8]>>,
    /// The port that the client connected to.
    pub port: Option<u16>,
    /// The start of the path that proxies have removed, without a slash at its end; never empty.
    pub prefix: Option<&'a [u8]>,
    /// They say something that cannot be read, or contradict each other: then nothing else is set.
    pub is_unreadable: bool,
}

/// What one kind of fields says.
enum Said<'a> {
    Nothing,
    Garbage,
    Claims(Claims<'a>),
}

/// Reads those of the fields that are in `read`, of a request from a peer that is trusted. `trusts` says which nodes are trusted too.
///
/// Cost: linear in the length of the section; some allocations.
pub fn claims<'a>(
    section: FieldLines<'a>,
    read: ForwardingFields,
    trusts: impl Fn(&Node) -> bool,
) -> Claims<'a> {
    let forwarded = match read.has(ForwardingField::Forwarded) {
        true => of_forwarded(section, &trusts),
        false => Said::Nothing,
    };
    match (of_x_forwarded(section, read, &trusts), forwarded) {
        (said, Said::Nothing) | (Said::Nothing, said) => match said {
            Said::Claims(claims) => claims,
            Said::Nothing => Claims::default(),
            Said::Garbage => Claims::unreadable(),
        },
        (Said::Claims(claims), Said::Claims(others)) => {
            claims.with(others).unwrap_or_else(Claims::unreadable)
        }
        _ => Claims::unreadable(),
    }
}

fn of_x_forwarded<'a>(
    section: FieldLines<'a>,
    read: ForwardingFields,
    trusts: impl Fn(&Node) -> bool,
) -> Said<'a> {
    let members = |field| members_from_right(section, read, field);
    let (mut claims, mut position, mut is_any) = (Claims::default(), 0, false);
    for (index, member) in members(ForwardingField::For).enumerate() {
        let Some(node) = Node::of_x_forwarded_for(member) else {
            return Said::Garbage;
        };
        (position, is_any, claims.client) = (index, true, Some(node));
        if !trusts(&node) {
            break;
        }
    }
    let mut value = |field| {
        let value = members(field).take(position + 1).last();
        is_any |= value.is_some();
        value
    };
    claims.scheme = value(ForwardingField::Proto).and_then(Scheme::of);
    claims.host = value(ForwardingField::Host)
        .filter(|host| is_host(host))
        .map(Cow::Borrowed);
    claims.port = value(ForwardingField::Port).and_then(port);
    claims.prefix = value(ForwardingField::Prefix).and_then(prefix);
    match is_any {
        true => Said::Claims(claims),
        false => Said::Nothing,
    }
}

/// The members of a list-valued field, from the last one of the last line on, without empty ones (RFC 9110 5.6.1).
fn members_from_right(
    section: FieldLines<'_>,
    read: ForwardingFields,
    field: ForwardingField,
) -> impl Iterator<Item = &[u8]> {
    let lines = match read.has(field) {
        true => lines_of(section, field),
        false => Vec::new(),
    };
    lines
        .into_iter()
        .rev()
        .flat_map(|line| line.rsplit(|byte| *byte == b','))
        .map(trim_ows)
        .filter(|member| !member.is_empty())
}

fn lines_of(section: FieldLines<'_>, field: ForwardingField) -> Vec<&[u8]> {
    section
        .filter(|(name, _)| ForwardingField::of(name) == Some((field, Spelling::Usual)))
        .map(|(_, value)| value)
        .collect()
}

fn of_forwarded<'a>(section: FieldLines<'a>, trusts: impl Fn(&Node) -> bool) -> Said<'a> {
    let mut claims = Claims::default();
    let lines = lines_of(section, ForwardingField::Forwarded);
    let is_any = !lines.is_empty();
    for line in lines.into_iter().rev() {
        let Some(elements) = elements(line) else {
            return Said::Garbage;
        };
        for element in elements.into_iter().rev() {
            let node = match element.node.as_deref().map(Node::of_forwarded) {
                Some(None) => return Said::Garbage,
                Some(node) => node,
                None => None,
            };
            let before = claims.client;
            claims = element.claims(node.or(before));
            if !node.is_some_and(|node| trusts(&node)) {
                return Said::Claims(claims);
            }
        }
    }
    match is_any {
        true => Said::Claims(claims),
        false => Said::Nothing,
    }
}

impl<'a> Element<'a> {
    fn claims(self, client: Option<Node>) -> Claims<'a> {
        Claims {
            client,
            scheme: self.proto.as_deref().and_then(Scheme::of),
            host: self.host.filter(|host| is_host(host)),
            port: None,
            prefix: None,
            is_unreadable: false,
        }
    }
}

impl<'a> Claims<'a> {
    fn unreadable() -> Claims<'a> {
        Claims {
            is_unreadable: true,
            ..Claims::default()
        }
    }

    /// What both say together; None if they contradict each other.
    fn with(self, others: Claims<'a>) -> Option<Claims<'a>> {
        let is_same_host =
            |one: &Cow<'a, [u8]>, other: &Cow<'a, [u8]>| one.eq_ignore_ascii_case(other);
        Some(Claims {
            client: match (self.client, others.client) {
                (Some(one), Some(other)) => Some(one.with(other)?),
                (one, other) => one.or(other),
            },
            scheme: either(self.scheme, others.scheme, |one, other| one == other)?,
            host: either(self.host, others.host, is_same_host)?,
            port: self.port,
            prefix: self.prefix,
            is_unreadable: false,
        })
    }
}

/// The one that there is, or both if they are the same. None if they differ.
fn either<T>(
    one: Option<T>,
    other: Option<T>,
    is_same: impl Fn(&T, &T) -> bool,
) -> Option<Option<T>> {
    match (&one, &other) {
        (Some(first), Some(second)) if !is_same(first, second) => None,
        _ => Some(one.or(other)),
    }
}
