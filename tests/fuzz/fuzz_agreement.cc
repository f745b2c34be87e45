// A root, a relay and a leaf hear anything from their neighbours: they refuse it, or go on; they
// never crash, and what a root decides from it, it can decode itself.
#include <cstdint>
#include <string>
#include <vector>

#include "engine/negotiate/agree.h"
#include "scripted_transport.h"

using namespace hvdlite;          // NOLINT: a fuzz target is one function
using namespace hvdlite::engine;  // NOLINT

namespace {

// The fuzzer's bytes cut into frames that are in sequence: the first byte of each says how long it
// is.
std::string Framed(const uint8_t* data, size_t size) {
  std::string out;
  uint32_t sequence = 0;
  while (size > 0) {
    const uint32_t length = static_cast<uint32_t>(std::min<size_t>(data[0], size - 1));
    out.append(reinterpret_cast<const char*>(&length), sizeof(length));
    out.append(reinterpret_cast<const char*>(&sequence), sizeof(sequence));
    out.append(reinterpret_cast<const char*>(data) + 1, length);
    data += length + 1;
    size -= length + 1;
    ++sequence;
  }
  return out;
}

void Run(TreePlace place, const fuzz::ScriptedTransport& script) {
  AgreementOptions options;
  options.cache_capacity = 3;
  Agreement agreement(std::move(place), {0, 1, 2, 3}, options);
  Nanos now = kSecond;
  Request mine;
  mine.name = "allreduce.a";
  mine.shape = {2};
  (void)agreement.Announce(mine, kNoSlot, now);
  bool failed = false;
  for (int turn = 0; turn < 2000 && !failed && !script.done(); ++turn, now += kSecond / 8) {
    std::vector<Decision> decisions;
    bool moved = false;
    failed = !agreement.Exchange(now, &decisions, &moved).ok();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const uint8_t role = data[0];
  // Half of the time the stream itself is the fuzzer's, half of the time only what is in the
  // frames.
  const std::string framed = Framed(data + 2, size - 2);
  const bool raw = data[1] % 4 == 0;
  fuzz::ScriptedTransport script(raw ? data + 2 : reinterpret_cast<const uint8_t*>(framed.data()),
                                 raw ? size - 2 : framed.size(), 1);
  fuzz::ScriptedTransport silent(nullptr, 0, 0);
  TreePlace place;
  switch (role % 3) {
    case 0:  // the root, with a leaf and a relay below
      place.children = {{&script, {1, 2}}, {&silent, {3}}};
      break;
    case 1:  // a relay that hears from below
      place.me = 1;
      place.parent = &silent;
      place.children = {{&script, {2, 3}}};
      break;
    default:  // a relay that hears from above
      place.me = 1;
      place.parent = &script;
      place.children = {{&silent, {2}}};
  }
  Run(std::move(place), script);
  return 0;
}
