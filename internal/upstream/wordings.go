package upstream

// How engines and providers word what matters. Texts are compared in lower case; each line names who says so.

// overflowCodes are the words for a prompt that does not fit the window.
var overflowCodes = map[string]bool{
	"context_length_exceeded":          true, // OpenAI, Azure, Groq, Cerebras, TabbyAPI
	"exceed_context_size_error":        true, // llama-server
	"model_max_prompt_tokens_exceeded": true, // GitHub
	"context_window_exceeded":          true,
	"contextwindowexceedederror":       true, // LiteLLM
	"model_context_window_exceeded":    true, // Z.ai, Anthropic
	"context_length_exceeded_error":    true,
	"prompt_too_long":                  true,
	"max_context_length_exceeded":      true,
	"input_length_exceeded":            true,
	"tokens_limit_reached":             true, // GitHub Models
}

// overflowWords are the texts for the same, also where it is the output asked for that does not fit any more.
var overflowWords = []string{
	"exceeds the available context size", "context size has been exceeded", // llama-server
	"input is too large to process", "larger than the max context size", // llama-server
	"maximum context length",                // OpenAI, vLLM, SGLang, DeepSeek, Mistral, OpenRouter, Fireworks, Ollama
	"model's context length",                // vLLM, SGLang, Together
	"max_model_len", "maximum model length", // vLLM
	"maximum input length", "max_num_tokens", // vLLM, TensorRT-LLM
	"(parameter=input_tokens",                                                                     // vLLM
	"max_seq_len",                                                                                 // TabbyAPI
	"exceeds the context length", "exceeded max context length", "longer than the context length", // Ollama
	"greater than the context length", "context length of only", "context overflow", "reached context length", // LM Studio
	"exceeds the context window", "input tokens exceed the configured limit", // OpenAI, Responses API
	"prompt is too long", "exceed context limit", // Anthropic
	"too large for model with",                                                  // Mistral
	"exceeds the maximum number of tokens allowed", "model only supports up to", // Gemini, Vertex
	"maximum prompt length is",                       // xAI
	"reduce the length of the messages",              // OpenAI, Groq, Cerebras
	"input is too long for", "too many input tokens", // Bedrock
	"`max_new_tokens` must be <=", "`inputs` must have less than", // text-generation-inference, Together
	"exceeded model token limit",                                                  // Moonshot
	"range of input length should be",                                             // Qwen
	"context window exceeds limit",                                                // MiniMax
	"prompt exceeds max length",                                                   // Z.ai
	"maximum allowed input length",                                                // Poolside
	"too many tokens: ",                                                           // Cohere
	"model input length limit",                                                    // MLC
	"context length exceeded", "context window exceeded", "prompt token count of", // proxies, GitHub
}

// ownFaults are the texts in which engines report a fault of the request as a 5xx; most are llama-server's.
var ownFaults = []string{
	"image input is not supported", "audio input is not supported", "mmproj", // no projector
	"parse error", "failed to parse", // bad JSON, and its parser of outputs
	"unable to generate parser", "jinja", "roles must alternate", // the template refuses the conversation
	"context size", "failed to tokenize",
	"failed to initialize samplers", "grammar", // a schema that cannot be enforced
	"unsupported content", "invalid base64", "failed to load image", "cannot identify image file", // vLLM, SGLang
}

// fewerTokens are the texts of a 402 which a smaller output cap would have avoided.
var fewerTokens = []string{"fewer max_tokens", "can only afford"} // OpenRouter

// moderated are the words for a request that was refused for what it says.
var moderated = map[string]bool{
	"content_policy_violation": true, "content_filter": true, "responsibleaipolicyviolation": true, // OpenAI, Azure
	"moderation": true, "moderation_error": true, "content_moderation": true, "flagged": true,
	"data_inspection_failed": true, "datainspectionfailed": true, // Qwen
	"prohibited_content": true, "safety": true, "invalid_prompt": true,
}

// withdrawn are the words for a model that is not served any more, also where they come as a 400.
var withdrawn = map[string]bool{
	"model_not_found": true, "model_decommissioned": true, "model_not_available": true, "model_deprecated": true,
}

// unsupported are the texts of a 404 that speaks of what the request asks for, not of the model.
var unsupported = []string{"no endpoints found that", "no endpoints found matching", "no allowed providers"} // OpenRouter

// notUp are the texts of a 503 of an engine that is not up yet.
var notUp = []string{"loading", "no models are currently loaded", "no model is currently loaded", "starting"} // llama-server, TabbyAPI, SGLang
