//! A certificate for development, which nobody has signed but its own key.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{CertificateParams, DnType, KeyPair, date_time_ymd};

/// Clients' clocks may be wrong by this much.
const EARLIER: Duration = Duration::from_secs(24 * 60 * 60);
/// Less than the longest validity that systems accept (825 days).
const VALID_FOR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Makes a certificate for names and addresses, and its key; both in PEM.
///
/// # Errors
/// If a name is not one, or the system has no random numbers.
pub fn self_signed(names: &[String]) -> Result<(String, String), String> {
    let made = || -> Result<(String, String), rcgen::Error> {
        let mut parameters = CertificateParams::new(names)?;
        let name = &mut parameters.distinguished_name;
        name.push(DnType::CommonName, "Bolide, for development only");
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let epoch = date_time_ymd(1970, 1, 1);
        let start = now.unwrap_or_default().saturating_sub(EARLIER);
        parameters.not_before = epoch + start;
        parameters.not_after = epoch + start + VALID_FOR;
        let key = KeyPair::generate()?;
        let certificate = parameters.self_signed(&key)?;
        Ok((certificate.pem(), key.serialize_pem()))
    };
    made().map_err(|error| error.to_string())
}
