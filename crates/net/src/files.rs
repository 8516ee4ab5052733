//! What the process may open, files without a name, and waiting for one.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{MemfdFlags, Mode, OFlags, memfd_create, open, unlink};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{Resource, getrlimit};

/// Attempts to find a name that does not exist.
const NAMES_MAX: u64 = 100;

/// The number of descriptors that this process may have open.
pub fn descriptors_max() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Opens a file without a name in a directory. The system deletes it when it is closed, even if the process is killed.
///
/// # Errors
/// When the directory does not exist or is not writable, or no descriptor is free.
pub fn temporary_file(directory: &Path) -> io::Result<File> {
    let (flags, mode) = (OFlags::RDWR | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR);
    match open(directory, flags | OFlags::TMPFILE, mode) {
        Ok(file) => return Ok(file.into()),
        // The file system or the kernel does not support it.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {}
        Err(error) => return Err(error.into()),
    }
    static NEXT: AtomicU64 = AtomicU64::new(0);
    for _ in 0..NAMES_MAX {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = directory.join(format!("bolide-{}-{number}", std::process::id()));
        match open(&path, flags | OFlags::CREATE | OFlags::EXCL, mode) {
            Ok(file) => {
                unlink(&path)?;
                return Ok(file.into());
            }
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// A file that is only in memory and has no name, with this content.
///
/// # Errors
/// When no descriptor or memory is free.
pub fn memory_file(content: &[u8]) -> io::Result<OwnedFd> {
    let mut file = File::from(memfd_create("bolide", MemfdFlags::CLOEXEC)?);
    file.write_all(content)?;
    Ok(file.into())
}

/// Waits until a descriptor accepts more, also if it does not block.
///
/// # Errors
/// If it cannot be watched.
pub fn wait_until_writable(file: BorrowedFd<'_>) -> io::Result<()> {
    let mut watched = [PollFd::new(&file, PollFlags::OUT)];
    retry_on_intr(|| poll(&mut watched, None))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Seek as _};

    use super::*;

    #[test]
    fn a_temporary_file_has_no_name() {
        let directory = std::env::temp_dir();
        let mut file = temporary_file(&directory).unwrap();
        assert_eq!(rustix::fs::fstat(&file).unwrap().st_nlink, 0);
        file.write_all(b"abc").unwrap();
        file.rewind().unwrap();
        let mut content = String::new();
        file.read_to_string(&mut content).unwrap();
        assert_eq!(content, "abc");
        assert!(temporary_file(&directory.join("nowhere")).is_err());
    }
}
