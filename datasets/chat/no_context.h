// The control of a data set: its questions without the texts that answer them.
#pragma once

#include "datasets/chat/chat_template.h"
#include "datasets/sample.h"

namespace kvscope {

// Of each prompt the turn's header and the question stay, with the same golds, keys, clusters and
// tags. Samples whose question is not known are left out. Name and version say whose control it is.
Dataset without_context(const Dataset& dataset, const ChatTemplate& chat);

}  // namespace kvscope
