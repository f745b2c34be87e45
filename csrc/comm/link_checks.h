// Decides whether the bytes of a link carry check words (HVDLITE_LINK_CHECKS). DECIDES; pure. Both
// ends decide alike: the knob is the same on all ranks, and all know where each rank listens.
#pragma once

#include <string>

namespace hvdlite::comm {

// "auto" checks links between machines. If both ranks listen at one address, only the kernel's
// memory is between them.
inline bool WantsChecks(const std::string& knob, const std::string& my_host,
                        const std::string& their_host) {
  return knob == "on" || (knob == "auto" && my_host != their_host);
}

}  // namespace hvdlite::comm
