//! The Huffman code of strings (RFC 7541 5.2, appendix B).
//!
//! The code is canonical: the lengths of the codes determine the codes. Everything else here is computed from [`LENGTHS`] when the crate
//! is compiled.
//!
//! Decoding looks up ten bits at a time, which usually contain two symbols; longer codes are rare. No table depends on the input.

/// Bits of each symbol's code (RFC 7541 appendix B); the last is EOS.
#[rustfmt::skip]
const LENGTHS: [u8; SYMBOLS] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
    30,
];

const SYMBOLS: usize = 257;
const EOS: u16 = 256;
const LENGTH_MIN: u32 = 5;
const LENGTH_MAX: u32 = 30;
/// Bits that are looked up at once.
const FAST_BITS: u32 = 10;
const FAST: usize = 1 << FAST_BITS;

static CODES: [u32; SYMBOLS] = codes();
static STARTS: [Start; FAST] = starts();
static LONG: Long = long();

/// What ten bits start with.
#[derive(Clone, Copy)]
struct Start {
    /// The symbols; the second is 0 if there is no room for one.
    symbols: [u8; 2],
    /// Bits of the first symbol; 0 if its code is longer than ten bits.
    first_bits: u8,
    /// Bits of both, and in the high bits their number.
    bits_and_count: u8,
}

impl Start {
    #[inline]
    fn bits(self) -> u32 {
        u32::from(self.bits_and_count & 0x0f)
    }

    #[inline]
    fn count(self) -> usize {
        usize::from(self.bits_and_count >> 4)
    }
}

/// How codes longer than [`FAST_BITS`] are decoded: those of one length are consecutive numbers.
struct Long {
    /// For each length, the smallest number of 32 bits that starts with no code of this or a smaller length.
    limits: [u64; LENGTH_MAX as usize + 1],
    /// For each length, its first code, and where its symbols start in `symbols`.
    firsts: [(u32, u16); LENGTH_MAX as usize + 1],
    /// All symbols in the order of their codes.
    symbols: [u16; SYMBOLS],
}

const fn codes() -> [u32; SYMBOLS] {
    let mut codes = [0; SYMBOLS];
    let mut code = 0;
    let mut length = LENGTH_MIN;
    while length <= LENGTH_MAX {
        let mut symbol = 0;
        while symbol < SYMBOLS {
            if LENGTHS[symbol] as u32 == length {
                codes[symbol] = code;
                code += 1;
            }
            symbol += 1;
        }
        code <<= 1;
        length += 1;
    }
    codes
}

const fn starts() -> [Start; FAST] {
    let codes = codes();
    let mut starts = [Start {
        symbols: [0, 0],
        first_bits: 0,
        bits_and_count: 0,
    }; FAST];
    let mut symbol = 0;
    while symbol < SYMBOLS {
        let length = LENGTHS[symbol];
        if length as u32 <= FAST_BITS {
            let width = FAST >> length;
            let mut index = 0;
            while index < width {
                let start = &mut starts[codes[symbol] as usize * width + index];
                start.symbols[0] = symbol as u8;
                start.first_bits = length;
                start.bits_and_count = length | 1 << 4;
                index += 1;
            }
        }
        symbol += 1;
    }
    // The bits after the first symbol may contain a whole second one.
    let mut index = 0;
    while index < FAST {
        let length = starts[index].first_bits as u32;
        if length > 0 {
            let second = starts[(index << length) % FAST];
            if second.first_bits > 0 && second.first_bits as u32 <= FAST_BITS - length {
                starts[index].symbols[1] = second.symbols[0];
                starts[index].bits_and_count = (length as u8 + second.first_bits) | 2 << 4;
            }
        }
        index += 1;
    }
    starts
}

const fn long() -> Long {
    let codes = codes();
    let mut long = Long {
        limits: [0; LENGTH_MAX as usize + 1],
        firsts: [(0, 0); LENGTH_MAX as usize + 1],
        symbols: [0; SYMBOLS],
    };
    let mut count = 0;
    let mut length = LENGTH_MIN;
    while length <= LENGTH_MAX {
        let mut limit = long.limits[length as usize - 1];
        let mut is_first = true;
        let mut symbol = 0;
        while symbol < SYMBOLS {
            if LENGTHS[symbol] as u32 == length {
                if is_first {
                    long.firsts[length as usize] = (codes[symbol], count);
                    is_first = false;
                }
                long.symbols[count as usize] = symbol as u16;
                count += 1;
                limit = (codes[symbol] as u64 + 1) << (32 - length);
            }
            symbol += 1;
        }
        long.limits[length as usize] = limit;
        length += 1;
    }
    long
}

/// Bits that have been read and not decoded.
struct Window {
    /// From the top; zeros follow.
    bits: u64,
    count: u32,
}

impl Window {
    /// Reads until more than 56 bits are there, or the input ends.
    #[inline]
    fn fill(&mut self, input: &mut &[u8]) {
        if let Some(eight) = input.first_chunk() {
            // Bits that are not counted yet are read again, and are the same.
            self.bits |= u64::from_be_bytes(*eight) >> self.count;
            let octets = (63 - self.count) / 8;
            self.count += octets * 8;
            *input = input.get(octets as usize..).unwrap_or_default();
            return;
        }
        while self.count <= 56
            && let [byte, rest @ ..] = *input
        {
            self.bits |= u64::from(*byte) << (56 - self.count);
            self.count += 8;
            *input = rest;
        }
    }

    #[inline]
    fn start(&self) -> Start {
        STARTS[(self.bits >> (64 - FAST_BITS)) as usize]
    }

    #[inline]
    fn skip(&mut self, bits: u32) {
        self.bits <<= bits;
        self.count -= bits;
    }

    /// Takes one symbol, which `start` may be the start of.
    #[cold]
    fn next(&mut self, start: Start) -> Next {
        let (symbol, bits) = match u32::from(start.first_bits) {
            0 => self.long_symbol(),
            bits => (u16::from(start.symbols[0]), bits),
        };
        if bits > self.count {
            // RFC 7541 5.2: fewer than eight bits, the first of EOS, which are ones.
            let is_padding = self.count < 8 && self.bits.leading_ones() >= self.count;
            return if is_padding { Next::End } else { Next::Invalid };
        }
        self.skip(bits);
        u8::try_from(symbol).map_or(Next::Invalid, Next::Symbol)
    }

    /// The symbol whose code is longer than [`FAST_BITS`], and the bits of that.
    fn long_symbol(&self) -> (u16, u32) {
        let window = self.bits >> 32;
        for length in FAST_BITS + 1..LENGTH_MAX {
            if window < LONG.limits[length as usize] {
                return (long_symbol(window, length), length);
            }
        }
        (long_symbol(window, LENGTH_MAX), LENGTH_MAX)
    }
}

/// The symbol whose code is the first `length` of 32 bits.
fn long_symbol(window: u64, length: u32) -> u16 {
    let (first, at) = LONG.firsts[length as usize];
    let index = (window >> (32 - length)).wrapping_sub(u64::from(first)) + u64::from(at);
    let symbol = usize::try_from(index)
        .ok()
        .and_then(|index| LONG.symbols.get(index));
    symbol.copied().unwrap_or(EOS)
}

/// What one step of decoding finds.
enum Next {
    Symbol(u8),
    /// Nothing but padding remains.
    End,
    /// EOS, or too much or other padding.
    Invalid,
}

/// Decoded bytes are collected here before they are appended.
const CHUNK: usize = 64;
/// Look-ups without reading more: a full window has the bits for them.
const STEPS: u32 = 56 / FAST_BITS;
/// More than this in the chunk leaves no room for all steps.
const FILLED_MAX: usize = CHUNK - 2 * STEPS as usize;

/// Appends the string that `encoded` is; None if it contains EOS, or does not end in padding (RFC 7541 5.2).
pub(in crate::h2) fn decode(encoded: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let mut input = encoded;
    let mut window = Window { bits: 0, count: 0 };
    let mut chunk = [0; CHUNK];
    let mut filled = 0;
    loop {
        if filled > FILLED_MAX {
            out.extend_from_slice(&chunk[..filled]);
            filled = 0;
        }
        window.fill(&mut input);
        // One after the other when there may be padding.
        let steps = if window.count >= STEPS * FAST_BITS {
            STEPS
        } else {
            1
        };
        for _ in 0..steps {
            let start = window.start();
            let bits = start.bits();
            if bits == 0 || bits > window.count {
                if window.count < LENGTH_MAX && !input.is_empty() {
                    // The rest of a long code has not been read.
                    break;
                }
                match window.next(start) {
                    Next::Symbol(symbol) => {
                        chunk[filled] = symbol;
                        filled += 1;
                        break;
                    }
                    Next::End => {
                        out.extend_from_slice(&chunk[..filled]);
                        return Some(());
                    }
                    Next::Invalid => return None,
                }
            }
            window.skip(bits);
            chunk[filled..filled + 2].copy_from_slice(&start.symbols);
            filled += start.count();
        }
    }
}

/// Bytes of the encoded string.
pub(in crate::h2) fn encoded_len(text: &[u8]) -> usize {
    let bits: usize = text
        .iter()
        .map(|byte| usize::from(LENGTHS[usize::from(*byte)]))
        .sum();
    bits.div_ceil(8)
}

/// Appends the encoded string.
pub(in crate::h2) fn encode(text: &[u8], out: &mut Vec<u8>) {
    let mut bits: u64 = 0;
    let mut count = 0;
    for byte in text {
        let symbol = usize::from(*byte);
        let length = u32::from(LENGTHS[symbol]);
        bits = bits << length | u64::from(CODES[symbol]);
        count += length;
        if count >= 32 {
            count -= 32;
            out.extend_from_slice(&((bits >> count) as u32).to_be_bytes());
        }
    }
    // Padded with ones, the first bits of EOS.
    let padding = count.wrapping_neg() % 8;
    bits = bits << padding | ((1 << padding) - 1);
    count += padding;
    while count > 0 {
        count -= 8;
        out.push((bits >> count) as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(text: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        encode(text, &mut out);
        assert_eq!(out.len(), encoded_len(text));
        out
    }

    fn decoded(bytes: &[u8]) -> Option<Vec<u8>> {
        let mut out = b"before".to_vec();
        decode(bytes, &mut out).map(|()| out.split_off(6))
    }

    /// A string of `0` and `1` as octets; its length is a multiple of 8.
    fn bits(text: &str) -> Vec<u8> {
        let octets = text.as_bytes().chunks(8);
        octets
            .map(|octet| octet.iter().fold(0, |all, bit| all << 1 | (bit & 1)))
            .collect()
    }

    fn code(symbol: usize) -> String {
        format!(
            "{:0width$b}",
            CODES[symbol],
            width = usize::from(LENGTHS[symbol])
        )
    }

    /// Some codes of RFC 7541 appendix B; the code is canonical, so these determine that the order is right.
    #[test]
    fn the_codes_are_those_of_the_rfc() {
        for (symbol, code) in [
            (usize::from(b'0'), 0x0),
            (usize::from(b'a'), 0x3),
            (usize::from(b' '), 0x14),
            (usize::from(b':'), 0x5c),
            (usize::from(b'Z'), 0xfd),
            (usize::from(b'!'), 0x3f8),
            (0, 0x1ff8),
            (usize::from(b'\\'), 0x7fff0),
            (1, 0x7fffd8),
            (9, 0xffffea),
            (10, 0x3ffffffc),
            (127, 0xffffffc),
            (249, 0xffffffe),
            (256, 0x3fffffff),
        ] {
            assert_eq!(CODES[symbol], code, "{symbol}");
        }
    }

    #[test]
    fn no_code_starts_another_and_together_they_use_every_number() {
        let used: u64 = LENGTHS
            .iter()
            .map(|length| 1 << (LENGTH_MAX - u32::from(*length)))
            .sum();
        assert_eq!(used, 1 << LENGTH_MAX);
        for (symbol, length) in LENGTHS.iter().enumerate() {
            for (other, other_length) in LENGTHS.iter().enumerate() {
                let is_longer = other != symbol && other_length >= length;
                let shortened = CODES[other] >> (other_length.saturating_sub(*length));
                assert!(!is_longer || shortened != CODES[symbol], "{symbol} {other}");
            }
        }
    }

    #[test]
    fn every_symbol_is_decoded_before_and_after_every_other() {
        for first in 0..=255 {
            assert_eq!(decoded(&encoded(&[first])), Some(vec![first]));
            for second in 0..=255 {
                let text = [first, second, b'a', second];
                assert_eq!(decoded(&encoded(&text)), Some(text.to_vec()));
            }
        }
    }

    #[test]
    fn strings_of_every_length_are_decoded() {
        let text: Vec<u8> = (0..=255).cycle().step_by(7).take(1000).collect();
        for len in 0..text.len() {
            assert_eq!(
                decoded(&encoded(&text[..len])).as_deref(),
                Some(&text[..len])
            );
            assert_eq!(
                decoded(&encoded(&text[len..])).as_deref(),
                Some(&text[len..])
            );
        }
    }

    #[test]
    fn long_codes_are_decoded_after_any_number_of_short_ones() {
        for symbol in 0..=255 {
            for before in 0..40 {
                for short in [b'a', b'w', b'X'] {
                    let mut text = vec![short; before];
                    text.extend([symbol, short, symbol]);
                    assert_eq!(decoded(&encoded(&text)), Some(text));
                }
            }
        }
    }

    /// RFC 7541 5.2: up to seven ones may follow the last symbol, and nothing else.
    #[test]
    fn padding_is_less_than_an_octet_of_ones() {
        for symbol in 0..256 {
            let code = code(symbol);
            let needed = code.len().wrapping_neg() % 8;
            let padded = |padding: String| decoded(&bits(&format!("{code}{padding}")));
            assert_eq!(padded("1".repeat(needed)), Some(vec![symbol as u8]));
            assert_eq!(padded("1".repeat(needed + 8)), None, "{symbol}: longer");
            for zero in 0..needed {
                let mut padding = vec![b'1'; needed];
                padding[zero] = b'0';
                let padding = String::from_utf8(padding).expect("digits");
                let found = padded(padding);
                // What is not padding may be another symbol.
                assert!(found.is_none_or(|text| text.len() == 2), "{symbol}: {zero}");
            }
        }
        assert_eq!(decoded(b""), Some(Vec::new()));
        assert_eq!(decoded(&[0xff]), None);
    }

    #[test]
    fn eos_is_refused_wherever_it_is() {
        let eos = "1".repeat(30);
        for text in ["", "a", "aaaaaaa", "~\0~"] {
            let before: String = text.bytes().map(|byte| code(usize::from(byte))).collect();
            for after in ["", "a", "zzzz"] {
                let after: String = after.bytes().map(|byte| code(usize::from(byte))).collect();
                let mut all = format!("{before}{eos}{after}");
                all.extend(std::iter::repeat_n('1', all.len().wrapping_neg() % 8));
                assert_eq!(decoded(&bits(&all)), None, "{text}");
            }
        }
    }
}
