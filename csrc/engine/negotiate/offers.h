// Offers: the messages of a meeting (engine/meeting.h). They go along the edge of the negotiation
// tree between the two members, in order with everything else that the members say there.
//
// Lifetime: borrows both. Thread-safety: one thread at a time (the holder of the engine's turn).
#pragma once

#include <string_view>

#include "base/codec.h"
#include "engine/meeting.h"
#include "transport/frames.h"

namespace hvdlite::engine {

class Offers {
 public:
  // `me`: member 0 is the root, and its messages go down.
  Offers(int me, transport::FrameChannel* edge, Meeting* meeting)
      : me_(me), edge_(*edge), meeting_(*meeting) {}

  // Tells the other member what this one does, at once if possible.
  Status Offer(const Meeting::Part& part);
  Status Decline();
  // What the other one has said. Returns false if it cannot have said that.
  bool HeardOffer(Reader* in, Nanos now);
  bool HeardDecline() { return meeting_.HeardDecline(); }

 private:
  const int me_;
  transport::FrameChannel& edge_;
  Meeting& meeting_;
};

}  // namespace hvdlite::engine
