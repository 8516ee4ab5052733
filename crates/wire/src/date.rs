//! The value of the Date field for a given time. This module reads no clock.

/// Bytes of an IMF-fixdate.
pub const IMF_FIXDATE_LEN: usize = 29;

/// 9999-12-31 23:59:59, the last second whose year has four digits.
const UNIX_SECONDS_MAX: u64 = 253_402_300_799;

const DAY_NAMES: &[u8; 21] = b"SunMonTueWedThuFriSat";
const MONTH_NAMES: &[u8; 36] = b"JanFebMarAprMayJunJulAugSepOctNovDec";

/// Formats a time as required by RFC 9110 5.6.7: `Sun, 06 Nov 1994 08:49:37 GMT`.
///
/// `unix_seconds` counts from 1970-01-01; later times than the year 9999 are formatted as its last second.
pub fn imf_fixdate(unix_seconds: u64) -> [u8; IMF_FIXDATE_LEN] {
    let seconds = unix_seconds.min(UNIX_SECONDS_MAX);
    let days = seconds / 86_400;
    let second_of_day = seconds % 86_400;
    let (year, month, day) = civil_date(days);
    // 1970-01-01 was a Thursday.
    let weekday = ((days + 4) % 7) as usize;
    let mut text = *b"Www, DD Mmm YYYY HH:MM:SS GMT";
    text[..3].copy_from_slice(&DAY_NAMES[weekday * 3..][..3]);
    put_two_digits(&mut text, 5, day);
    text[8..11].copy_from_slice(&MONTH_NAMES[(month as usize - 1) * 3..][..3]);
    put_two_digits(&mut text, 12, year / 100);
    put_two_digits(&mut text, 14, year % 100);
    put_two_digits(&mut text, 17, second_of_day / 3600);
    put_two_digits(&mut text, 20, second_of_day / 60 % 60);
    put_two_digits(&mut text, 23, second_of_day % 60);
    text
}

/// Year, month (from 1) and day (from 1) of a day counted from 1970-01-01.
///
/// Counted from 0000-03-01, so that a leap day is the last of its year, an era of 400 years has
/// 146 097 days, and the months March to January repeat 31-30-31-30-31 = 153 days per five.
fn civil_date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let (month, next_year) = if month_from_march < 10 {
        (month_from_march + 3, 0)
    } else {
        (month_from_march - 9, 1)
    };
    (era * 400 + year_of_era + next_year, month, day)
}

fn put_two_digits(text: &mut [u8; IMF_FIXDATE_LEN], at: usize, number: u64) {
    text[at] = b'0' + (number / 10 % 10) as u8;
    text[at + 1] = b'0' + (number % 10) as u8;
}
