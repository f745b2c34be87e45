// The part of World that only jobs with several hosts need: addresses, the door for links, communicators over links.
#include "comm/world.h"

namespace hvdlite::comm {

Status World::TellAddresses(rendezvous::Member*) { return Status::Ok(); }
Status World::OpenDoor(rendezvous::Store*, Deadline) { return Status::Unsupported("several hosts"); }
Status World::ConnectMesh(Group*, uint32_t, Deadline, std::vector<transport::Transport*>*) {
  return Status::Unsupported("several hosts");
}
Status World::BuildBetweenHosts(Group*, const std::vector<transport::Transport*>&) {
  return Status::Unsupported("several hosts");
}

}  // namespace hvdlite::comm
