//! The byte classes of RFC 9110, RFC 9112 and RFC 3986, with their grammar.
//!
//! Each class is a plain predicate; the hot ones are also bits of one 256-entry table.

/// Horizontal tab, the one control byte allowed in a field value.
pub(crate) const HTAB: u8 = b'\t';
/// Carriage return.
pub(crate) const CR: u8 = b'\r';
/// Line feed.
pub(crate) const LF: u8 = b'\n';
/// Space.
pub(crate) const SP: u8 = b' ';
/// The line terminator (RFC 9112 2.1).
pub(crate) const CRLF: &[u8; 2] = b"\r\n";

/// RFC 9110 5.6.2:
/// ```text
/// token = 1*tchar
/// tchar = "!" / "#" / "$" / "%" / "&" / "'" / "*" / "+" / "-" / "."
///       / "^" / "_" / "`" / "|" / "~" / DIGIT / ALPHA
/// ```
const fn tchar(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'!' | b'#'
                | b'$'
                | b'%'
                | b'&'
                | b'\''
                | b'*'
                | b'+'
                | b'-'
                | b'.'
                | b'^'
                | b'_'
                | b'`'
                | b'|'
                | b'~'
        )
}

/// RFC 9110 5.5, without obs-fold:
/// ```text
/// field-value   = *field-content
/// field-content = field-vchar [ 1*( SP / HTAB / field-vchar ) field-vchar ]
/// field-vchar   = VCHAR / obs-text
/// obs-text      = %x80-FF
/// ```
const fn field_value_byte(byte: u8) -> bool {
    byte == HTAB || (byte >= 0x20 && byte != 0x7f)
}

/// A byte of a request target (RFC 9112 3.2), whatever its form.
///
/// Deviation: RFC 3986 also excludes `"<>\^`, backtick and `{
/// }`. Browsers send most of them raw in a query (URL Standard, query percent-encode set), and none
/// of them is a delimiter here.
const fn target_byte(byte: u8) -> bool {
    matches!(byte, 0x21..=0x7e) && byte != b'#'
}

/// RFC 3986 3.2.2:
/// ```text
/// reg-name   = *( unreserved / pct-encoded / sub-delims )
/// unreserved = ALPHA / DIGIT / "-" / "." / "_" / "~"
/// sub-delims = "!" / "$" / "&" / "'" / "(" / ")" / "*" / "+" / "," / ";" / "="
/// ```
/// Deviation: "," is excluded, because an intermediary that joins two Host lines makes one.
const fn reg_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'-' | b'.'
                | b'_'
                | b'~'
                | b'%'
                | b'!'
                | b'$'
                | b'&'
                | b'\''
                | b'('
                | b')'
                | b'*'
                | b'+'
                | b';'
                | b'='
        )
}

const TCHAR: u8 = 1;
const FIELD_VALUE: u8 = 2;
const TARGET: u8 = 4;
const REG_NAME: u8 = 8;

static CLASSES: [u8; 256] = classes();

const fn classes() -> [u8; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let byte = index as u8;
        table[index] = if tchar(byte) { TCHAR } else { 0 }
            | if field_value_byte(byte) {
                FIELD_VALUE
            } else {
                0
            }
            | if target_byte(byte) { TARGET } else { 0 }
            | if reg_name_byte(byte) { REG_NAME } else { 0 };
        index += 1;
    }
    table
}

/// Whether the byte is allowed in a token.
#[inline]
pub(crate) fn is_tchar(byte: u8) -> bool {
    CLASSES[usize::from(byte)] & TCHAR != 0
}

/// Whether the byte is allowed in a field name of HTTP/2, which has no upper case (RFC 9113 8.2.1).
#[inline]
pub(crate) fn is_lower_tchar(byte: u8) -> bool {
    is_tchar(byte) && !byte.is_ascii_uppercase()
}

/// Whether the byte is allowed in a field value.
#[inline]
pub(crate) fn is_field_value_byte(byte: u8) -> bool {
    CLASSES[usize::from(byte)] & FIELD_VALUE != 0
}

/// Whether the byte is allowed in the query of a request target.
#[inline]
pub(crate) fn is_query_byte(byte: u8) -> bool {
    CLASSES[usize::from(byte)] & TARGET != 0
}

/// Whether the byte is allowed in a request target before its query.
#[inline]
pub(crate) fn is_path_byte(byte: u8) -> bool {
    is_query_byte(byte) && byte != b'?'
}

/// Whether the byte is allowed in a registered name.
#[inline]
pub(crate) fn is_reg_name_byte(byte: u8) -> bool {
    CLASSES[usize::from(byte)] & REG_NAME != 0
}

/// The bytes of a usual host name or IPv4 address, a subset of [`is_reg_name_byte`].
#[inline]
pub(crate) fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'-'
}

/// The bytes of a usual field name, a subset of [`is_tchar`].
#[inline]
pub(crate) fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'-'
}

/// Optional white space: `OWS = *( SP / HTAB )` (RFC 9110 5.6.3). Nothing else is white space.
#[inline]
pub(crate) fn is_ows(byte: u8) -> bool {
    byte == SP || byte == HTAB
}

/// The bytes of a field value, or a part of one, without the OWS around them.
///
/// Only for values that [`crate::is_field_value`] accepts: every byte up to SP counts as OWS, and
/// the only one below SP in a field value is HTAB.
#[inline]
pub fn trim_ows(mut bytes: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = bytes
        && *first <= SP
    {
        bytes = rest;
    }
    while let [rest @ .., last] = bytes
        && *last <= SP
    {
        bytes = rest;
    }
    bytes
}

/// Whether the bytes are `token = 1*tchar`.
pub(crate) fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().copied().all(is_tchar)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_the_classes_of_its_predicates() {
        for byte in 0..=255 {
            assert_eq!(is_tchar(byte), tchar(byte), "{byte:#x}");
            assert_eq!(
                is_field_value_byte(byte),
                field_value_byte(byte),
                "{byte:#x}"
            );
            assert_eq!(is_query_byte(byte), target_byte(byte), "{byte:#x}");
            assert_eq!(is_reg_name_byte(byte), reg_name_byte(byte), "{byte:#x}");
        }
    }

    #[test]
    fn the_classes_have_the_sizes_the_rfcs_give_them() {
        let count = |class: fn(u8) -> bool| (0..=255).filter(|&byte| class(byte)).count();
        assert_eq!(count(is_tchar), 26 + 26 + 10 + 15);
        assert_eq!(count(is_field_value_byte), 256 - 32 - 1 + 1);
        assert_eq!(count(is_query_byte), 94 - 1);
        assert_eq!(count(is_reg_name_byte), 26 + 26 + 10 + 15);
        assert_eq!(count(is_ows), 2);
    }

    #[test]
    fn white_space_is_trimmed_on_both_sides_only() {
        assert_eq!(trim_ows(b" \t a b\t "), b"a b");
        assert_eq!(trim_ows(b" \t "), b"");
        assert_eq!(trim_ows(b" \xa0a\xa0"), b"\xa0a\xa0");
    }
}
