//! Integers with a prefix (RFC 7541 5.1).

/// Octets after the prefix: enough for 32 bits. RFC 7541 5.1 demands a limit.
const OCTETS_MAX: u32 = 5;

/// Reads the integer whose prefix is the bits of `mask` in `first`, and whose other octets `rest` starts with; None if it is incomplete,
/// longer than five octets, or does not fit 32 bits.
#[inline]
pub(in crate::h2) fn read(first: u8, mask: u8, rest: &mut &[u8]) -> Option<u32> {
    let prefix = first & mask;
    if prefix != mask {
        return Some(u32::from(prefix));
    }
    read_octets(u64::from(mask), rest)
}

fn read_octets(prefix: u64, rest: &mut &[u8]) -> Option<u32> {
    let mut value = prefix;
    for index in 0..OCTETS_MAX {
        let (octet, tail) = rest.split_first()?;
        *rest = tail;
        value += u64::from(octet & 0x7f) << (7 * index);
        if octet & 0x80 == 0 {
            return u32::try_from(value).ok();
        }
    }
    None
}

/// Appends an integer; `first` has the bits before its prefix, which is `mask`.
#[inline]
pub(in crate::h2) fn push(out: &mut Vec<u8>, first: u8, mask: u8, value: usize) {
    match u8::try_from(value) {
        Ok(prefix) if prefix < mask => out.push(first | prefix),
        _ => push_octets(out, first | mask, value - usize::from(mask)),
    }
}

fn push_octets(out: &mut Vec<u8>, first: u8, mut rest: usize) {
    out.push(first);
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn octets(first: u8, mask: u8, value: usize) -> Vec<u8> {
        let mut out = Vec::new();
        push(&mut out, first, mask, value);
        out
    }

    fn value(bytes: &[u8], mask: u8) -> Option<(u32, usize)> {
        let mut rest = &bytes[1..];
        read(bytes[0], mask, &mut rest).map(|value| (value, rest.len()))
    }

    /// RFC 7541 C.1.
    #[test]
    fn the_examples_of_the_rfc() {
        assert_eq!(octets(0xe0, 0x1f, 10), [0xea]);
        assert_eq!(octets(0, 0x1f, 1337), [0x1f, 0x9a, 0x0a]);
        assert_eq!(octets(0, 0xff, 42), [0x2a]);
        assert_eq!(value(&[0xea], 0x1f), Some((10, 0)));
        assert_eq!(value(&[0x1f, 0x9a, 0x0a, 0x0a], 0x1f), Some((1337, 1)));
    }

    #[test]
    fn every_integer_is_read_as_written() {
        for bits in 1..=8_u32 {
            let mask = u8::MAX >> (8 - bits);
            let near = (0..32).flat_map(|power| {
                let power = 1_usize << power;
                [power - 1, power, power + 1, power + usize::from(mask)]
            });
            for number in (0..1000).chain(near).chain([u32::MAX as usize]) {
                let written = octets(!mask, mask, number);
                let expected = u32::try_from(number).ok().map(|number| (number, 0));
                assert_eq!(value(&written, mask), expected, "{number} in {bits} bits");
                for len in 1..written.len() {
                    assert_eq!(value(&written[..len], mask), None);
                }
            }
        }
    }

    #[test]
    fn what_is_too_large_or_too_long_is_refused() {
        assert_eq!(
            value(&[0x7f, 0x80, 0x80, 0x80, 0x80, 0x00], 0x7f),
            Some((127, 0))
        );
        assert_eq!(
            value(&[0x7f, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00], 0x7f),
            None
        );
        assert_eq!(value(&[0x7f, 0xff, 0xff, 0xff, 0xff, 0x0f], 0x7f), None);
        assert_eq!(
            value(&[0x7f, 0x80, 0xff, 0xff, 0xff, 0x0f], 0x7f),
            Some((u32::MAX, 0))
        );
        assert_eq!(value(&[0x7f, 0x81, 0xff, 0xff, 0xff, 0x0f], 0x7f), None);
    }
}
