//! Panics of the schedule are silent; every other one is detected here, although the worker catches it.

use std::cell::RefCell;
use std::panic::PanicHookInfo;
use std::sync::Once;

thread_local! {
    static UNEXPECTED: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Records panics from now on, except those with the message `wanted`.
pub(crate) fn watch(wanted: &'static str) {
    static WATCH: Once = Once::new();
    WATCH.call_once(move || {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !is_wanted(info, wanted) {
                UNEXPECTED.with_borrow_mut(|it| *it = Some(info.to_string()));
                before(info);
            }
        }));
    });
}

fn is_wanted(info: &PanicHookInfo<'_>, wanted: &str) -> bool {
    let payload = info.payload();
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or(payload.downcast_ref::<&str>().copied()) == Some(wanted)
}

/// What panicked since the last call, if it was not the schedule.
pub(crate) fn take_unexpected() -> Option<String> {
    UNEXPECTED.with_borrow_mut(Option::take)
}
