// NetOverPipes: runs the net communicator's Adasum and gathers over MPI's messages, which
// transports wrap.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "comm/net/communicator.h"

namespace hvdlite::comm {

class NetOverPipes final : public net::Communicator {
 public:
  // pipes[i] leads to member i; pipes[me] is null.
  using Pipes = std::vector<std::unique_ptr<transport::Transport>>;
  NetOverPipes(int me, Pipes pipes)
      : net::Communicator(me, static_cast<int>(pipes.size()), Links(pipes), Gathering()),
        pipes_(std::move(pipes)) {}

 private:
  static net::Options Gathering() {
    net::Options options;
    options.force = Algorithm::kGather;
    return options;
  }
  static std::vector<transport::Transport*> Links(const Pipes& pipes) {
    std::vector<transport::Transport*> links;
    for (const auto& pipe : pipes) links.push_back(pipe.get());
    return links;
  }

  const Pipes pipes_;
};

}  // namespace hvdlite::comm
