#include "base/clock.h"

namespace hvdlite {
namespace {
class SystemClock final : public Clock {
 public:
  Nanos Now() const override { return MonotonicNow(); }
};
}  // namespace

const Clock& Clock::System() {
  static const SystemClock clock;
  return clock;
}

}  // namespace hvdlite
