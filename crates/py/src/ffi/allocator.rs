//! The C library's allocator, used for CPython's large objects and Rust's: how much freed memory it keeps.
//!
//! With a C library other than glibc, nothing is changed or known.

#[cfg(target_env = "gnu")]
use gnu as library;
#[cfg(not(target_env = "gnu"))]
use other as library;

pub(crate) use library::{give_back, used_bytes};

/// Environment variables with which an operator sets the number of arenas.
const ARENAS_VARIABLES: [(&str, &str); 2] = [
    ("MALLOC_ARENA_MAX", ""),
    ("GLIBC_TUNABLES", "glibc.malloc.arena_max"),
];

/// Lets the allocator keep `bytes` of freed memory in each arena, instead of returning them to the system and requesting them again: parts
/// of contents are allocated and freed by the megabyte.
///
/// This stops glibc from raising on its own the size from which a block gets a mapping of its own. Left alone, that size would stay below
/// the 256 KiB that asyncio allocates for each read: three system calls and a page fault (bench: loops). So it is set too.
pub(crate) fn keep_freed(bytes: i32) {
    const MAPPED_BYTES_MIN: i32 = 512 * 1024;
    library::set(library::TRIM_THRESHOLD, bytes);
    library::set(library::MMAP_THRESHOLD, MAPPED_BYTES_MIN);
}

/// Makes all threads share `count` arenas, unless the environment sets their number. Each arena keeps freed memory of its own, and
/// [`give_back`] empties only the first one. Threads that have to hold the interpreter rarely contend for arenas.
pub(crate) fn share_arenas(count: i32) {
    let is_said =
        |(name, text): &(&str, &str)| std::env::var(name).is_ok_and(|value| value.contains(text));
    if !ARENAS_VARIABLES.iter().any(is_said) {
        library::set(library::ARENA_MAX, count);
    }
}

#[cfg(target_env = "gnu")]
mod gnu {
    use std::ffi::{c_char, c_int, c_void};
    use std::ptr;
    use std::sync::OnceLock;

    pub(super) const TRIM_THRESHOLD: c_int = -1;
    pub(super) const MMAP_THRESHOLD: c_int = -3;
    pub(super) const ARENA_MAX: c_int = -8;

    /// `struct mallinfo2` of malloc.h.
    #[repr(C)]
    struct Figures {
        _heap_bytes: usize,
        _blocks: [usize; 3],
        mapped_bytes: usize,
        _fast: [usize; 2],
        used_bytes: usize,
        _free: [usize; 2],
    }

    type Count = unsafe extern "C" fn() -> Figures;

    // SAFETY: the declarations are the C library's own (malloc.h, dlfcn.h).
    unsafe extern "C" {
        fn mallopt(parameter: c_int, value: c_int) -> c_int;
        fn malloc_trim(kept_bytes: usize) -> c_int;
        fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    }

    pub(super) fn set(parameter: c_int, value: c_int) {
        // SAFETY: any value may be passed; an unsupported one changes nothing.
        unsafe { mallopt(parameter, value) };
    }

    /// Returns every free page to the system. Takes a tenth of a millisecond per megabyte.
    pub(crate) fn give_back() {
        // SAFETY: no preconditions; other threads wait for it.
        unsafe { malloc_trim(0) };
    }

    /// Bytes in blocks that are in use; 0 with a glibc before 2.33, which counts in 32 bits.
    pub(crate) fn used_bytes() -> u64 {
        static COUNT: OnceLock<Option<Count>> = OnceLock::new();
        let Some(count) = COUNT.get_or_init(find) else {
            return 0;
        };
        // SAFETY: no preconditions.
        let figures = unsafe { count() };
        (figures.used_bytes + figures.mapped_bytes) as u64
    }

    fn find() -> Option<Count> {
        // SAFETY: a null library means all that are loaded, and the name ends in a zero.
        let found = unsafe { dlsym(ptr::null_mut(), c"mallinfo2".as_ptr()) };
        // SAFETY: the symbol of this name is that function, and null is not the address of a function.
        unsafe { std::mem::transmute::<*mut c_void, Option<Count>>(found) }
    }
}

#[cfg(not(target_env = "gnu"))]
mod other {
    pub(super) const TRIM_THRESHOLD: i32 = 0;
    pub(super) const MMAP_THRESHOLD: i32 = 0;
    pub(super) const ARENA_MAX: i32 = 0;

    pub(super) fn set(_parameter: i32, _value: i32) {}

    pub(crate) fn give_back() {}

    pub(crate) fn used_bytes() -> u64 {
        0
    }
}
