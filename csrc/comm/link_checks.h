// Whether what goes over a link carries check words (HVDLITE_LINK_CHECKS). DECIDES; pure. Both ends
// decide alike: the knob is the same on all ranks, and all know where each of them listens.
#pragma once

#include <string>

namespace hvdlite::comm {

// "auto": between machines. Where both ranks listen at one address, the kernel's memory is all that
// is between them.
inline bool WantsChecks(const std::string& knob, const std::string& my_host,
                        const std::string& their_host) {
  return knob == "on" || (knob == "auto" && my_host != their_host);
}

}  // namespace hvdlite::comm
