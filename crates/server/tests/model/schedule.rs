//! What happens in one run of the model: plain data, drawn by [`crate::strategy`].

/// Everything that one run does.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    pub(crate) settings: Settings,
    pub(crate) conversations: Vec<Conversation>,
    pub(crate) steps: Vec<Step>,
    pub(crate) ending: Ending,
}

/// How the server is set up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// `handler_timeout_ms` is not 0.
    pub(crate) times_handlers: bool,
    /// Few pipelined exchanges and a small buffer for slow clients.
    pub(crate) is_tight: bool,
    /// The limit is one connection.
    pub(crate) is_crowded: bool,
}

/// One connection: what its client sends, and how it reads.
#[derive(Clone, Debug)]
pub(crate) struct Conversation {
    pub(crate) requests: Vec<Request>,
    /// Over TCP, where a reset can be distinguished from an end.
    pub(crate) is_tcp: bool,
    pub(crate) tls: Tls,
    /// The server's side is full after few bytes.
    pub(crate) is_narrow: bool,
    /// The client reads everything after each pass; otherwise only in steps.
    pub(crate) is_attentive: bool,
    /// It reads to the end once the steps are done.
    pub(crate) reads_at_end: bool,
}

/// Whether a connection uses TLS, and how its client sends records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tls {
    None,
    /// So many bytes at once, and the end with a close_notify or without.
    Steps {
        step_bytes: usize,
        announces: bool,
    },
}

/// One request, and what the application does with it.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) persistence: Persistence,
    pub(crate) content: Content,
    pub(crate) expects: bool,
    pub(crate) fault: Fault,
    pub(crate) handler: Handler,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Method {
    Get,
    Head,
    Post,
}

/// The version, and what the request says about its connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Persistence {
    Kept,
    Closed,
    OldKept,
    OldClosed,
}

impl Persistence {
    pub(crate) fn is_old(self) -> bool {
        matches!(self, Persistence::OldKept | Persistence::OldClosed)
    }

    pub(crate) fn is_kept(self) -> bool {
        matches!(self, Persistence::Kept | Persistence::OldKept)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Content {
    None,
    Length(usize),
    Chunks { count: usize, bytes: usize },
}

impl Content {
    pub(crate) fn bytes(self) -> usize {
        match self {
            Content::None => 0,
            Content::Length(bytes) => bytes,
            Content::Chunks { count, bytes } => count * bytes,
        }
    }
}

/// What is wrong with a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    None,
    /// 400.
    TwoHosts,
    /// 400.
    FieldName,
    /// 505.
    Version,
    /// 431.
    LongSection,
    /// 400, after the first chunk; only of chunked content.
    ChunkSize,
}

impl Fault {
    /// The status that refuses the head.
    pub(crate) fn head_status(self) -> Option<u16> {
        match self {
            Fault::None | Fault::ChunkSize => None,
            Fault::TwoHosts | Fault::FieldName => Some(400),
            Fault::Version => Some(505),
            Fault::LongSection => Some(431),
        }
    }
}

/// What the application does with a request.
#[derive(Clone, Debug)]
pub(crate) struct Handler {
    pub(crate) first: First,
    /// How many of the moves are made during the call.
    pub(crate) moves_at_call: usize,
    /// Moves that are impossible when they are due are skipped. What they leave incomplete is completed at the end.
    pub(crate) moves: Vec<Move>,
    /// It responds once the steps are done; otherwise it owes the response until the very end.
    pub(crate) completes: bool,
    /// It provides memory for content ([`server::App::content_room`]).
    pub(crate) has_room: bool,
    /// Its call takes so long that another thread sends what waits for the end of the call.
    pub(crate) is_slow: bool,
    /// It continues posting when its exchange is over.
    pub(crate) strays: bool,
    pub(crate) reply: Reply,
}

/// What the call itself does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum First {
    Respond,
    /// Responds, and has more work to do after that.
    Ahead,
    /// Starts a stream that the server pulls.
    Pull,
    /// Suspends; the moves follow.
    Suspend,
    /// Requests the whole content first, then makes its moves, or responds if it has none.
    ReadContent,
    /// Claims to have responded, and has not.
    Forget,
    /// Panics, with a response already written.
    Panic,
}

/// What a suspended handler posts, or waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Move {
    /// Asks for a part of the content and continues.
    Read,
    /// Asks for a part of the content and waits for it.
    ReadPart,
    /// Reads to the end of the content, part by part.
    ReadWhole,
    /// Asks for the rest of the content as one part, and waits for it.
    Collect,
    /// The same, and continues: it may ask for a part after that.
    CollectForNow,
    /// Panics when the next part arrives.
    PanicInContent,
    Inform,
    Respond,
    Begin,
    BeginOpen,
    /// Starts a stream that the server pulls.
    Stream,
    Write(usize),
    /// Writes this many bytes from a file.
    WriteFile(usize),
    /// Writes from a file that is too short.
    WriteShortFile,
    Finish,
    /// Finishes with a trailer section.
    FinishWith,
    Fail,
}

/// The response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) bytes: usize,
    /// The stream is started with its length.
    pub(crate) knows_length: bool,
    pub(crate) has_field: bool,
    /// Parts of a pulled stream.
    pub(crate) parts: usize,
    pub(crate) pull_end: PullEnd,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PullEnd {
    End,
    Fail,
    Panic,
}

/// One event, and how many passes the server makes after it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// The conversation that it happens to, modulo their number.
    pub(crate) conversation: usize,
    pub(crate) act: Act,
    pub(crate) passes: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Act {
    /// The client sends.
    Offer(Amount),
    /// The application makes the next move of one of its open exchanges.
    Move(usize),
    /// The client reads this many bytes.
    Receive(usize),
    /// This many milliseconds pass.
    Advance(u64),
    /// Everything that is due without time passing happens, and is checked.
    Settle,
    /// The client ends its sending side.
    HalfClose,
    /// The client vanishes.
    Vanish,
    /// The worker drains.
    Drain,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Amount {
    Bytes(usize),
    /// To the end of the next head.
    Head,
    /// To the end of the next request.
    Request,
    /// To the end of the next request, and this many bytes of the one after it.
    Beyond(usize),
    All,
}

/// What follows the steps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ending {
    /// The clients send the rest of their requests.
    pub(crate) offers_rest: bool,
    pub(crate) peers: PeersEnd,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PeersEnd {
    /// They send nothing more.
    Silent,
    /// They end their sending sides.
    HalfClose,
    /// They vanish.
    Vanish,
    /// They are silent, and the worker drains.
    Drain,
}
