package config

import (
	"time"

	"github.com/shopspring/decimal"
	"myip.co.kr/hearth"
)

// Slot is a place on a node that can run one model: how its engine is started, asked and stopped.
type Slot struct {
	// Name is the slot's name, unique over all nodes.
	Name string `yaml:"name" need:"yes" example:"gemma"`
	// Model is the id of the model the slot serves.
	Model string `yaml:"model" need:"yes" example:"google/gemma-4-26b-a4b"`
	// Driver says who runs the engine. exec: the gateway starts and stops it as a child process. command: it is started
	// and stopped by commands of yours. http: by requests to a server that runs already and loads models on demand.
	// docker: it is a container. always: somebody else runs it; the gateway only asks whether it is up.
	Driver string `yaml:"driver" default:"exec" enum:"exec command http docker always"`
	// Command is the program and its arguments, for exec. No shell reads it. ${port} becomes the port the engine
	// must listen on, ${model} the model's id, ${api_key} a key made anew for each start, which the gateway then
	// sends. Put no secret of your own here: others on the machine can see it.
	Command []string `yaml:"command" env:"yes" example:"[llama-server, -m, gemma.gguf, --host, 127.0.0.1, --port, \"${port}\"]"`
	// Env holds environment variables for the engine, for exec, where ${port}, ${model} and ${api_key} are replaced as
	// in command; for the driver command they are those of its commands. Of the gateway's own environment an engine or
	// command gets only a small part.
	Env map[string]hearth.Secret `yaml:"env" env:"yes" example:"{CUDA_VISIBLE_DEVICES: \"0\"}"`
	// Dir is the working directory of the engine, for exec, or of the commands, for command. A relative path starts at the directory of the
	// configuration file. Default: the gateway's own.
	Dir string `yaml:"dir" env:"yes" example:"/srv/models"`
	// Port is a fixed port for the engine, for exec. Default: a free one of local.port_range for each start.
	Port int `yaml:"port" min:"1" max:"65535" example:"9001"`
	// Engine is the kind of engine, so that the gateway treats it as its kind needs: keys of a request that give a caller
	// power over the machine do not reach it (llama-server: id_slot, lora, n_predict; vllm: chat_template,
	// prompt_logprobs, kv_transfer_params, priority, truncate_prompt_tokens; ollama: options.num_ctx), an output cap
	// that it would refuse is lowered to what is left of the window (vllm, sglang), a prompt that only the estimate
	// finds too long is counted by the engine itself (llama-server, vllm), and a stream is counted piece by piece, so that
	// one that is broken off can be billed (llama-server, vllm, sglang; not with strict_keys). Default: not known, every key is passed on.
	Engine string `yaml:"engine" enum:"llama-server vllm sglang ollama lm-studio tabbyapi" example:"llama-server"`
	// StrictKeys lets only keys of the chat completions API through to the engine, whatever else it may understand.
	StrictKeys bool `yaml:"strict_keys" default:"false"`
	// Start, for command and http, is what starts the engine. With a preset it may say headers, a body and a timeout that
	// take the place of the preset's.
	Start *Action `yaml:"start" example:"{command: [docker, start, gemma]}"`
	// Stop, for command and http, is what stops it. Stopping what does not run must succeed.
	Stop *Action `yaml:"stop" example:"{command: [docker, stop, -t, \"10\", gemma]}"`
	// Status, for command and http, says whether the engine runs: a command by exit code 0, a request by its answer.
	// It is not whether the engine is ready: for that the engine itself is asked, at url. Default: only the engine is
	// asked.
	Status *Action `yaml:"status" example:"{command: [systemctl, is-active, --quiet, gemma]}"`
	// Preset, for http, is a kind of server whose start, stop and status are known. vllm: sleep and wake_up of a server
	// started with --enable-sleep-mode and VLLM_SERVER_DEV_MODE=1. ollama: load and unload by keep_alive. llama-server:
	// load and unload of its router. lm-studio, tabbyapi: load and unload. sglang: release and resume of its memory, of a
	// server started with --enable-memory-saver and --enable-weights-cpu-backup. The engine is then of the same kind.
	Preset string `yaml:"preset" enum:"vllm ollama llama-server lm-studio tabbyapi sglang" example:"ollama"`
	// Container, for docker, is the name or id of the container. It must exist; the gateway starts and stops it.
	Container string `yaml:"container" env:"yes" example:"vllm-gemma"`
	// Docker, for docker, is where the Engine API answers: unix:///path or http(s)://host:port. Default:
	// unix:///var/run/docker.sock.
	Docker string `yaml:"docker" env:"yes" example:"http://127.0.0.1:2375"`
	// OnExit says what becomes of a running engine when the gateway ends. stop: it is stopped. keep: it goes on, and the
	// next gateway takes it over. One that exec started is stopped at the next start if its slot is no longer there, or
	// would start it differently: another command, env, dir, port, model or upstream_model.
	OnExit string `yaml:"on_exit" default:"stop" enum:"stop keep"`
	// MinFree is the device memory that must be free before the engine is started; the start waits for it. See
	// free_memory of the node. Default: not looked at.
	MinFree Size `yaml:"min_free" min:"1MiB" max:"1TiB" example:"20GiB"`
	// URL is the address of the engine without /v1, for all drivers but exec.
	URL string `yaml:"url" env:"yes" example:"http://127.0.0.1:11434"`
	// Trust says where an engine with a url may be. loopback: on this machine. lan: also on a machine of
	// the same private network; prompts then cross that network.
	Trust string `yaml:"trust" default:"loopback" enum:"loopback lan"`
	// APIKey is sent to an engine with a url as a bearer token.
	APIKey hearth.Secret `yaml:"api_key" env:"filled" example:"${env:VLLM_API_KEY}"`
	// APIKeyFile is a file that holds the key, instead of api_key.
	APIKeyFile string `yaml:"api_key_file" env:"yes" example:"/run/secrets/vllm"`
	// Probe is the path that answers 200 when the engine is ready.
	Probe string `yaml:"probe" default:"/health" example:"/v1/models"`
	// UpstreamModel is what the engine calls the model. Default: the model's id. An engine that lists its models must list
	// it, else the slot is not ready: the answer never comes from another model.
	UpstreamModel string `yaml:"upstream_model" example:"gemma3:27b"`
	// Context is the context window in tokens. A prompt estimated above it is not sent to the slot. Default: as the engine
	// says, once it has run; until then unknown, which lets every prompt through.
	Context int `yaml:"context" min:"1" max:"1000000000" example:"32768"`
	// MaxOutput is the largest completion in tokens, for the lists. Default: unknown.
	MaxOutput int `yaml:"max_output" min:"1" max:"1000000000"`
	// ImageTokens is what one image counts as when the size of a prompt is estimated.
	ImageTokens int `yaml:"image_tokens" default:"4096" min:"0" max:"1000000"`
	// Quantization is the precision of the weights, for the lists and for callers that ask for certain ones: int4, int8,
	// fp4, mxfp4, nvfp4, fp6, fp8, mxfp8, fp16, bf16 or fp32. Other words can be shown, but not asked for.
	Quantization string `yaml:"quantization" example:"int4"`
	// Parameters are the request parameters the engine takes. A request that offers tools or asks for a response format
	// skips a slot that lists others only; one with require_parameters skips it if any parameter is missing. Default:
	// not declared, which is taken as the usual ones.
	Parameters []string `yaml:"parameters" example:"[max_tokens, temperature, top_p, stop, seed, tools, tool_choice]"`
	// Input lists the kinds of input the slot takes: text, image, audio, video, file. A request with another kind skips
	// it. Default: not declared, which skips nothing.
	Input []string `yaml:"input" example:"[text, image]"`
	// ToolQuality is your grade of its tool calls, from 0 to 1, for callers that sort by it (:exacto); 0 is not graded
	// and counts as 0.9. The share of calls that came out well, as measured, weighs the grade.
	ToolQuality decimal.Decimal `yaml:"tool_quality" default:"0" min:"0" max:"1" example:"0.9"`
	// Concurrency is how many requests the engine works on at once; 0 is as the command or env says (--max-num-seqs,
	// --max-running-requests, OLLAMA_NUM_PARALLEL), else as the engine says of itself (llama-server does), else 1.
	Concurrency int `yaml:"concurrency" default:"0" min:"0" max:"10000"`
	// Queue is how many requests may wait; more are passed on to the next candidate at once. One API key holds at most
	// half of it.
	Queue int `yaml:"queue" default:"64" min:"0" max:"100000"`
	// Wait is the wait budget: how long a request may wait for the slot to start or to be swapped in.
	Wait time.Duration `yaml:"wait" default:"90s" min:"0s" max:"1h"`
	// QueueWait is how long a request may wait for a place in a slot that is ready, if there is another candidate;
	// without one it may wait as long as wait says.
	QueueWait time.Duration `yaml:"queue_wait" default:"10s" min:"0s" max:"1h"`
	// ExpectedLoad is the first guess of the load time; later the measured one counts.
	ExpectedLoad time.Duration `yaml:"expected_load" default:"30s" min:"0s" max:"1h"`
	// StartTimeout is when a start that is still not ready has failed.
	StartTimeout time.Duration `yaml:"start_timeout" default:"10m" min:"1s" max:"24h"`
	// StopGrace is the time between asking the engine to end and killing it.
	StopGrace time.Duration `yaml:"stop_grace" default:"10s" min:"0s" max:"1h"`
	// IdleSleep unloads the model after so much quiet; 0 never does.
	IdleSleep time.Duration `yaml:"idle_sleep" default:"0s" min:"0s" max:"720h" example:"30m"`
	// Devices are the ids of the node's devices that the engine takes. One that exec starts sees only these:
	// CUDA_VISIBLE_DEVICES is set, and CUDA_DEVICE_ORDER to PCI_BUS_ID, unless env sets the first. Default: all of the node's.
	Devices []int `yaml:"devices" min:"0" max:"1023" example:"[0, 1]"`
	// Memory is what the engine takes of each of its devices: weights, cache and all. It is believed, not measured: bound the
	// engine itself by it. On a node that is not exclusive models are up together as long as their sum fits.
	Memory Size `yaml:"memory" min:"1MiB" max:"100TiB" example:"20GiB"`
	// Resident says when the engine is up. demand: from the first request for it until the room is needed, or idle_sleep ends
	// it. always: from the start of the gateway on, beside whatever else is there, also on an exclusive node: for a small
	// model, such as one that writes titles, which has room beside every other one. If it fails it is started again.
	Resident string `yaml:"resident" default:"demand" enum:"demand always"`
	// KeepWarm is when the slot is started though nobody asks for it: true for always, or days and hours as in available. It
	// takes free room at once, and that of models which nobody has asked for in a minute; it never keeps another model
	// waiting. idle_sleep does not hold meanwhile.
	KeepWarm string `yaml:"keep_warm" default:"false" example:"\"mon-fri 08:30-18:00\""`
	// DrainMax bounds how long a stream may hold up a shutdown. A swap never cuts a stream.
	DrainMax time.Duration `yaml:"drain_max" default:"10m" min:"0s" max:"24h"`
	// Priority is the place in the chain; lower is tried first.
	Priority int `yaml:"priority" default:"0" min:"0" max:"1000"`
	// Price is the price list in the billing currency; exchange rate and margin do not touch it. Default: free.
	Price *Price `yaml:"price" example:"{prompt: 30, completion: 150}"`
	// Disabled takes the slot out of every chain.
	Disabled bool `yaml:"disabled" default:"false"`
}

// Provider is one account at an external provider.
type Provider struct {
	// Slug is the name callers use in provider.only, ignore and order. local-gpu is taken.
	Slug string `yaml:"slug" need:"yes" example:"acme"`
	// Name is the display name, sent in the provider header. Default: the slug.
	Name string `yaml:"name" example:"Acme AI"`
	// BaseURL is the address up to and including the version, to which /chat/completions is added.
	BaseURL string `yaml:"base_url" need:"yes" env:"yes" example:"https://openrouter.ai/api/v1"`
	// APIKey is the account's key.
	APIKey hearth.Secret `yaml:"api_key" env:"filled" example:"${env:ACME_API_KEY}"`
	// APIKeyFile is a file that holds the key, instead of api_key. White space around the key is cut off.
	APIKeyFile string `yaml:"api_key_file" env:"yes" example:"/run/secrets/acme"`
	// Headers are sent with every request.
	Headers map[string]hearth.Secret `yaml:"headers" env:"filled" example:"{X-Project: hearth}"`
	// Currency is the currency of the provider's price list.
	Currency string `yaml:"currency" default:"USD"`
	// Margin is added to this provider's prices. Default: the margin at the top of the file.
	Margin *Margin `yaml:"margin" min:"-100%" max:"10000%" example:"7.5%"`
	// NoStreamOptions is for providers that refuse stream_options. Their streams then report no usage, and what
	// reports no usage costs nothing.
	NoStreamOptions bool `yaml:"no_stream_options" default:"false"`
	// OnAbort says what becomes of a stream when its caller leaves: see on_abort at the top of the file. Default: as there.
	OnAbort string `yaml:"on_abort" enum:"cancel settle" example:"settle"`
	// OnAbortLimit is how long it is read on at most. Default: on_abort_limit at the top of the file.
	OnAbortLimit time.Duration `yaml:"on_abort_limit" min:"1s" max:"10m" example:"10s"`
	// MaxTokensKey is the one key for the output cap that the provider knows; the other one is rewritten to it. Default:
	// both, the caller's key is passed on.
	MaxTokensKey string `yaml:"max_tokens_key" enum:"max_tokens max_completion_tokens" example:"max_completion_tokens"`
	// Dialect is what the provider understands. openai: plain chat completions. openrouter: also OpenRouter's provider
	// object, so that a caller's data_collection, zdr, quantizations, require_parameters and max_price (in USD) hold
	// beyond this account, at whoever it passes the request on to.
	Dialect string `yaml:"dialect" default:"openai" enum:"openai openrouter"`
	// DataCollection is what the provider's terms say of prompts, and the default of its models. deny: they are not
	// collected and nothing is trained on them. allow: they may be. Default: not declared, which is as good as allow:
	// requests with data_collection: deny skip it. Own slots always pass.
	DataCollection string `yaml:"data_collection" enum:"allow deny"`
	// ZDR declares that nothing of a request is retained (zero data retention), which includes that nothing is collected; it
	// is the default of its models. Requests with zdr: true skip whoever does not declare it. Own slots always pass.
	// Default: not declared.
	ZDR *bool `yaml:"zdr" example:"true"`
	// Probe says whether the gateway itself asks endpoints that have failed whether they answer again: see probe under
	// routing. Default: as there.
	Probe string `yaml:"probe" enum:"free always off" example:"always"`
	// Limits bound one attempt at this provider.
	Limits Limits `yaml:"limits"`
	// PrivacyURL is the address of the provider's privacy policy, for the list of providers.
	PrivacyURL string `yaml:"privacy_url" example:"https://acme.example/privacy"`
	// TermsURL is the address of the provider's terms.
	TermsURL string `yaml:"terms_url"`
	// StatusURL is the address of the provider's status page.
	StatusURL string `yaml:"status_url"`
	// Models are the models the provider serves.
	Models []Offer `yaml:"models"`
}

// Offer is one model at one provider.
type Offer struct {
	// Model is the id of the model.
	Model string `yaml:"model" need:"yes" example:"google/gemma-4-26b-a4b"`
	// UpstreamModel is what the provider calls it. Default: the model's id.
	UpstreamModel string `yaml:"upstream_model" example:"gemma-4-26b-a4b-it"`
	// Variant tells two offers of one model apart; callers can then ask for <slug>/<variant>.
	Variant string `yaml:"variant" example:"fp8"`
	// Priority is the place in the chain; lower is tried first.
	Priority int `yaml:"priority" default:"50" min:"0" max:"1000"`
	// Context is the context window in tokens. Default: unknown, which lets every prompt through.
	Context int `yaml:"context" min:"1" max:"1000000000" example:"131072"`
	// MaxOutput is the largest completion in tokens. Default: unknown.
	MaxOutput int `yaml:"max_output" min:"1" max:"1000000000"`
	// ImageTokens is what one image counts as when the size of a prompt is estimated.
	ImageTokens int `yaml:"image_tokens" default:"4096" min:"0" max:"1000000"`
	// Quantization is the precision of the weights: int4, int8, fp4, mxfp4, nvfp4, fp6, fp8, mxfp8, fp16, bf16 or fp32.
	// Callers that ask for certain ones skip other words. Default: unknown.
	Quantization string `yaml:"quantization" example:"fp8"`
	// Parameters are the request parameters the provider takes for this model. A request that offers tools or asks for a
	// response format skips an offer that lists others only; one with require_parameters skips it if any parameter is
	// missing. Default: not declared, which is taken as the usual ones.
	Parameters []string `yaml:"parameters" example:"[max_tokens, temperature, top_p, stop, seed, tools, tool_choice]"`
	// Input lists the kinds of input it takes: text, image, audio, video, file. A request with another kind skips it.
	// Default: not declared, which skips nothing.
	Input []string `yaml:"input" example:"[text, image]"`
	// DataCollection is what the terms for this model say of prompts: deny or allow, as at the provider. Default: the
	// provider's.
	DataCollection string `yaml:"data_collection" enum:"allow deny"`
	// ZDR declares that nothing of a request for this model is retained. Default: the provider's.
	ZDR *bool `yaml:"zdr" example:"true"`
	// ToolQuality is your grade of its tool calls, from 0 to 1, for callers that sort by it (:exacto); 0 is not graded
	// and counts as 0.9. The share of calls that came out well, as measured, weighs the grade.
	ToolQuality decimal.Decimal `yaml:"tool_quality" default:"0" min:"0" max:"1" example:"0.9"`
	// Flagged is why the quality of its answers is in doubt. An offer with such a text gets few requests, to know it by, as
	// long as another one of the model and priority has room. hearth quality sets such flags while the gateway runs.
	Flagged string `yaml:"flagged" example:"garbles Korean in long answers"`
	// Price is the price list in the provider's currency, before exchange rate and margin. The word reported in its place
	// takes what the provider says of each answer, without a list. Default: free.
	Price *Price `yaml:"price" example:"{prompt: 0.13, completion: 0.4}"`
	// Margin is added to the price of this model. Default: the provider's.
	Margin *Margin `yaml:"margin" min:"-100%" max:"10000%" example:"2%"`
	// Disabled takes the offer out of every chain.
	Disabled bool `yaml:"disabled" default:"false"`
}
