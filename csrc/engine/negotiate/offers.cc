#include "engine/negotiate/offers.h"

#include "engine/message.h"

namespace hvdlite::engine {
namespace {

Writer Begin(int me, Up up, Down down) {
  Writer out;
  if (me != 0) out.Varint(static_cast<uint64_t>(me));
  out.U8(me == 0 ? static_cast<uint8_t>(down) : static_cast<uint8_t>(up));
  return out;
}

}  // namespace

// It is sent first, because the end of a round may overwrite the input with the result.
Status Offers::Offer(const Meeting::Part& part) {
  Writer head = Begin(me_, Up::kOffer, Down::kOffer);
  head.Varint(part.topic.slot);
  head.Varint(part.topic.epoch);
  head.Varint(part.bytes);
  const Status status =
      edge_.SendNow(head.bytes(), {static_cast<const char*>(part.input), part.bytes});
  meeting_.Offer(part);
  return status;
}

Status Offers::Decline() {
  meeting_.Decline();
  return edge_.SendNow(Begin(me_, Up::kDecline, Down::kDecline).bytes(), {});
}

bool Offers::HeardOffer(Reader* in, Nanos now) {
  Meeting::Topic topic;
  topic.slot = in->Varint();
  topic.epoch = in->Varint();
  const std::string_view tensor = in->View();
  return in->ok() && meeting_.Heard(topic, tensor, now);
}

}  // namespace hvdlite::engine
