//! What a search for cycles asks of an activation (decision A12): where a call is, and to end its waiting.

use granary_core::deadlock::CallPhase;
use granary_core::hosting::CallError;
use tokio::time::Instant;

use super::Activation;

impl Activation {
    /// Where a call is; `None` when it was answered, has not come, or its time is up.
    pub(crate) fn phase_of(&self, call_id: u128) -> Option<CallPhase> {
        let shared = self.lock();
        if shared.running > 0 && shared.call_id == call_id {
            return Some(CallPhase::Running);
        }
        shared.mailbox.holds(call_id, Instant::now()).then_some(CallPhase::Queued)
    }

    /// Answers a call that has not started; false when it did, or is not there.
    pub(crate) fn refuse_queued(&self, call_id: u128, error: CallError) -> bool {
        let call = self.lock().mailbox.remove(call_id);
        call.map(|call| call.answer(Err(error))).is_some()
    }
}
