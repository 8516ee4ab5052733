//! What the server has to know of a certificate (RFC 5280): for whom it is, until when, and the names in it as text.
//!
//! It verifies nothing: rustls and webpki do.

use std::net::IpAddr;

use aws_lc_rs::digest;

use super::der::{
    Element, INTEGER, OBJECT_IDENTIFIER, OCTET_STRING, Reader, SEQUENCE, SET, dotted,
};

const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
const BOOLEAN: u8 = 0x01;
const DNS_NAME: u8 = 0x82;
const IP_ADDRESS: u8 = 0x87;
const UTC_TIME: u8 = 0x17;
/// UTCTime and GeneralizedTime.
pub(super) const TIMES: [u8; 2] = [UTC_TIME, 0x18];
const BMP_STRING: u8 = 0x1e;
const TELETEX_STRING: u8 = 0x14;
/// Types of strings whose bytes are UTF-8, or a part of it: UTF8String, PrintableString, IA5String, NumericString, VisibleString.
const UTF8_STRINGS: [u8; 5] = [0x0c, 0x13, 0x16, 0x12, 0x1a];
const SUBJECT_ALT_NAME: &[u8] = b"\x55\x1d\x11";
const COMMON_NAME: &[u8] = b"\x55\x04\x03";
/// The types of names that have a short name in RFC 4514 section 3, and one that OpenSSL, Apache and nginx name.
const SHORT_NAMES: [(&[u8], &str); 10] = [
    (COMMON_NAME, "CN"),
    (b"\x55\x04\x07", "L"),
    (b"\x55\x04\x08", "ST"),
    (b"\x55\x04\x0a", "O"),
    (b"\x55\x04\x0b", "OU"),
    (b"\x55\x04\x06", "C"),
    (b"\x55\x04\x09", "STREET"),
    (b"\x09\x92\x26\x89\x93\xf2\x2c\x64\x01\x19", "DC"),
    (b"\x09\x92\x26\x89\x93\xf2\x2c\x64\x01\x01", "UID"),
    (b"\x2a\x86\x48\x86\xf7\x0d\x01\x09\x01", "emailAddress"),
];

/// A certificate whose outline could be read.
#[derive(Clone, Copy)]
pub struct Certificate<'a> {
    version: u8,
    serial: &'a [u8],
    issuer: Reader<'a>,
    validity: Reader<'a>,
    subject: Reader<'a>,
    extensions: Option<Reader<'a>>,
}

impl<'a> Certificate<'a> {
    /// Reads the outline of a certificate in DER; None if it is not one.
    pub fn read(der: &'a [u8]) -> Option<Certificate<'a>> {
        let mut to_be_signed = Reader::new(der).enter(SEQUENCE)?.enter(SEQUENCE)?;
        let version = to_be_signed
            .enter_if(VERSION)
            .and_then(|mut it| it.read(INTEGER)?.last().copied());
        let serial = to_be_signed.next()?.content;
        to_be_signed.next()?; // the signature's algorithm
        let issuer = to_be_signed.enter(SEQUENCE)?;
        let validity = to_be_signed.enter(SEQUENCE)?;
        let subject = to_be_signed.enter(SEQUENCE)?;
        to_be_signed.next()?; // the public key
        let extensions = to_be_signed.find(|element| element.tag == EXTENSIONS);
        Some(Certificate {
            // Version 1 is left out, and version 3 is 2.
            version: version.unwrap_or(0).saturating_add(1),
            serial,
            issuer,
            validity,
            subject,
            extensions: extensions.and_then(|it| Reader::new(it.content).enter(SEQUENCE)),
        })
    }

    /// The version of X.509: only 3 has extensions, and with them the names that clients verify.
    pub fn version(&self) -> u8 {
        self.version
    }

    /// The DNS names for which it is valid, in lower case.
    pub fn dns_names(&self) -> Vec<String> {
        self.alternative_names(DNS_NAME)
            .map(|name| String::from_utf8_lossy(name).to_lowercase())
            .collect()
    }

    /// The IP addresses for which it is valid.
    pub fn addresses(&self) -> Vec<IpAddr> {
        self.alternative_names(IP_ADDRESS)
            .filter_map(|address| {
                let four = <[u8; 4]>::try_from(address).map(IpAddr::from);
                let sixteen = <[u8; 16]>::try_from(address).map(IpAddr::from);
                four.or(sixteen).ok()
            })
            .collect()
    }

    /// The first and the last second of its validity, since 1970.
    pub fn validity(&self) -> Option<(i64, i64)> {
        let mut validity = self.validity;
        Some((unix_time(validity.next()?)?, unix_time(validity.next()?)?))
    }

    /// Its subject as in RFC 4514.
    pub fn subject(&self) -> String {
        distinguished_name(self.subject)
    }

    /// Its issuer as in RFC 4514.
    pub fn issuer(&self) -> String {
        distinguished_name(self.issuer)
    }

    /// The first common name of its subject.
    pub fn common_name(&self) -> Option<String> {
        let sets = self.subject.filter(|set| set.tag == SET);
        let mut attributes = sets.flat_map(|set| Reader::new(set.content));
        attributes.find_map(|attribute| {
            let mut parts = Reader::new(attribute.content);
            let kind = parts.read(OBJECT_IDENTIFIER)?;
            text(parts.next()?).filter(|_| kind == COMMON_NAME)
        })
    }

    /// Its serial number in upper-case hexadecimal digits.
    pub fn serial(&self) -> String {
        let digits = match self.serial {
            [0, rest @ ..] if !rest.is_empty() => rest,
            digits => digits,
        };
        hexadecimal(digits, "").to_uppercase()
    }

    fn alternative_names(&self, kind: u8) -> impl Iterator<Item = &'a [u8]> {
        let names = self.extension(SUBJECT_ALT_NAME);
        let names = names.and_then(|mut it| it.enter(SEQUENCE));
        let names = names.into_iter().flatten();
        names
            .filter(move |name| name.tag == kind)
            .map(|name| name.content)
    }

    /// Its issuer in DER.
    pub(super) fn issuer_der(&self) -> &'a [u8] {
        self.issuer.rest()
    }

    fn extension(&self, identifier: &[u8]) -> Option<Reader<'a>> {
        extension(self.extensions?, identifier)
    }
}

/// The value of one of the extensions of a certificate or of a revocation list.
pub(super) fn extension<'a>(mut extensions: Reader<'a>, identifier: &[u8]) -> Option<Reader<'a>> {
    extensions.find_map(|extension| {
        let mut parts = Reader::new(extension.content);
        let found = parts.read(OBJECT_IDENTIFIER)?;
        parts.pass_over(BOOLEAN);
        (found == identifier).then(|| parts.enter(OCTET_STRING))?
    })
}

/// A certificate's SHA-256 fingerprint, as browsers show it.
pub(super) fn fingerprint(der: &[u8]) -> String {
    hexadecimal(digest::digest(&digest::SHA256, der).as_ref(), ":").to_uppercase()
}

/// Bytes in DER as PEM (RFC 7468), with the label of what they are.
pub(super) fn to_pem(label: &str, der: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = format!("-----BEGIN {label}-----\n");
    // 48 bytes are a line of 64 characters.
    for line in der.chunks(48) {
        for group in line.chunks(3) {
            let bits = (0..3).fold(0, |bits, index| {
                bits << 8 | u32::from(group.get(index).copied().unwrap_or(0))
            });
            for place in 0..4 {
                let digit = DIGITS.get((bits >> (18 - 6 * place)) as usize & 63);
                let character = if place <= group.len() { digit } else { None };
                text.push(char::from(*character.unwrap_or(&b'=')));
            }
        }
        text.push('\n');
    }
    text + &format!("-----END {label}-----\n")
}

fn hexadecimal(bytes: &[u8], separator: &str) -> String {
    let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    digits.join(separator)
}

/// A name's parts from the last to the first (RFC 4514 section 2.1).
pub(super) fn distinguished_name(name: Reader<'_>) -> String {
    let mut sets: Vec<String> = name
        .map(|set| {
            let attributes: Vec<String> = Reader::new(set.content).filter_map(attribute).collect();
            attributes.join("+")
        })
        .collect();
    sets.reverse();
    sets.join(",")
}

fn attribute(element: Element<'_>) -> Option<String> {
    let mut parts = Reader::new(element.content);
    let (kind, value) = (parts.read(OBJECT_IDENTIFIER)?, parts.next()?);
    let known = SHORT_NAMES.iter().find(|(known, _)| *known == kind);
    match (known, text(value)) {
        (Some((_, name)), Some(text)) => Some(format!("{name}={}", escaped(&text))),
        (Some((_, name)), None) => Some(format!("{name}=#{}", hexadecimal(value.whole, ""))),
        (None, _) => Some(format!(
            "{}=#{}",
            dotted(kind),
            hexadecimal(value.whole, "")
        )),
    }
}

fn text(value: Element<'_>) -> Option<String> {
    match value.tag {
        tag if UTF8_STRINGS.contains(&tag) => {
            std::str::from_utf8(value.content).ok().map(str::to_owned)
        }
        TELETEX_STRING => Some(value.content.iter().copied().map(char::from).collect()),
        BMP_STRING => {
            let units = value.content.chunks(2).map(|unit| match unit {
                [high, low] => u16::from_be_bytes([*high, *low]),
                _ => u16::from(b'?'),
            });
            char::decode_utf16(units).collect::<Result<_, _>>().ok()
        }
        _ => None,
    }
}

/// RFC 4514 section 2.4.
fn escaped(value: &str) -> String {
    let mut escaped = String::with_capacity(value.len());
    let last = value.chars().count().saturating_sub(1);
    for (index, character) in value.chars().enumerate() {
        match character {
            '\0' => escaped.push_str("\\00"),
            '"' | '+' | ',' | ';' | '<' | '>' | '\\' => escaped.extend(['\\', character]),
            '#' if index == 0 => escaped.push_str("\\#"),
            ' ' if index == 0 || index == last => escaped.push_str("\\ "),
            character if character.is_control() => {
                let mut bytes = [0; 4];
                for byte in character.encode_utf8(&mut bytes).bytes() {
                    escaped.push_str(&format!("\\{byte:02x}"));
                }
            }
            character => escaped.push(character),
        }
    }
    escaped
}

/// RFC 5280 section 4.1.2.5.
pub(super) fn unix_time(time: Element<'_>) -> Option<i64> {
    if !TIMES.contains(&time.tag) {
        return None;
    }
    let digits = std::str::from_utf8(time.content).ok()?.strip_suffix('Z')?;
    let (year, rest) = if time.tag == UTC_TIME {
        let year: i64 = digits.get(..2)?.parse().ok()?;
        (year + if year < 50 { 2000 } else { 1900 }, digits.get(2..)?)
    } else {
        (digits.get(..4)?.parse().ok()?, digits.get(4..)?)
    };
    let mut numbers = [0_i64; 5];
    for (index, number) in numbers.iter_mut().enumerate() {
        *number = rest.get(2 * index..2 * index + 2)?.parse().ok()?;
    }
    let [month, day, hour, minute, second] = numbers;
    Some(days(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second)
}

/// Days from 1970-01-01 to a date of the Gregorian calendar: years start in March, so that a leap day is the last one.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = match month {
        ..=2 => (year - 1, month + 9),
        _ => (year, month - 3),
    };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    fn time(tag: u8, content: &[u8]) -> Option<i64> {
        let whole = [&[tag, content.len() as u8][..], content].concat();
        unix_time(Reader::new(&whole).next()?)
    }

    #[test]
    fn times_are_read_in_both_forms() {
        assert_eq!(time(UTC_TIME, b"700101000000Z"), Some(0));
        assert_eq!(time(UTC_TIME, b"240229235959Z"), Some(1_709_251_199));
        assert_eq!(time(0x18, b"20500301000000Z"), Some(2_529_705_600));
        assert_eq!(time(UTC_TIME, b"7001010000Z"), None);
        assert_eq!(time(UTC_TIME, b"70010100000\xffZ"), None);
    }

    #[test]
    fn values_are_escaped() {
        assert_eq!(escaped("a,b+c=\"d\""), "a\\,b\\+c=\\\"d\\\"");
        assert_eq!(escaped("# a "), "\\# a\\ ");
        assert_eq!(escaped(" "), "\\ ");
        assert_eq!(escaped("a\0\nb"), "a\\00\\0ab");
    }

    #[test]
    fn a_certificate_is_read() {
        let mut parameters = rcgen::CertificateParams::new(vec![
            "Example.org".to_owned(),
            "*.example.org".to_owned(),
            "192.0.2.1".to_owned(),
        ])
        .unwrap();
        let name = &mut parameters.distinguished_name;
        name.push(rcgen::DnType::CountryName, "DE");
        name.push(rcgen::DnType::CommonName, "a, b");
        parameters.serial_number = Some(vec![0, 0xab, 1].into());
        parameters.not_before = rcgen::date_time_ymd(2024, 2, 29);
        parameters.not_after = rcgen::date_time_ymd(2050, 3, 1);
        let key = rcgen::KeyPair::generate().unwrap();
        let made = parameters.self_signed(&key).unwrap();
        let read = Certificate::read(made.der()).unwrap();
        assert_eq!(read.dns_names(), ["example.org", "*.example.org"]);
        assert_eq!(read.validity(), Some((1_709_164_800, 2_529_705_600)));
        assert_eq!(read.subject(), "C=DE,CN=a\\, b");
        assert_eq!(read.issuer(), read.subject());
        assert_eq!(read.serial(), "AB01");
        assert_eq!(
            to_pem("CERTIFICATE", made.der()),
            made.pem().replace("\r\n", "\n")
        );
        assert_eq!(fingerprint(made.der()).len(), 32 * 3 - 1);
        assert!(Certificate::read(&made.der()[..40]).is_none());
    }
}
