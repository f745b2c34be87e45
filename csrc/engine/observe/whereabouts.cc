#include "engine/observe/whereabouts.h"

namespace hvdlite::engine {

void Encode(const Whereabouts& here, Writer* out) {
  out->Text(here.place);
  out->U8(here.in_wait ? 1 : 0);
  out->Signed(here.idle);
  out->Signed(here.unanswered);
}

bool Decode(Reader* in, Whereabouts* here) {
  here->place = in->Text();
  const uint8_t in_wait = in->U8();
  here->in_wait = in_wait == 1;
  here->idle = in->Signed();
  here->unanswered = in->Signed();
  return in->ok() && in_wait <= 1;
}

}  // namespace hvdlite::engine
