// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// IngressSpec says how the app is reached from outside the cluster. An Ingress
// is made where the cluster has the IngressClass, an HTTPRoute where it serves
// the Gateway API. Both follow when the support appears or goes.
//
// +kubebuilder:validation:XValidation:rule="has(self.className) || has(self.gateway)",message="className or gateway is required",reason=FieldValueRequired
type IngressSpec struct {
	// host is the DNS name that the app answers to; its first label may be "*".
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([*][.])?[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	// +required
	Host string `json:"host"`

	// className is the name of the IngressClass. The Ingress is made as soon as an
	// IngressClass of this name exists, and goes with it. Absent means no Ingress.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	// +optional
	ClassName string `json:"className,omitempty"`

	// tls is how the Ingress ends TLS. Absent means plain HTTP. The listeners of a
	// Gateway have TLS of their own.
	// +optional
	TLS *IngressTLS `json:"tls,omitempty"`

	// gateway names the Gateway that an HTTPRoute is attached to. The HTTPRoute is
	// made as soon as the cluster serves gateway.networking.k8s.io/v1, and goes
	// with it. Absent means no HTTPRoute.
	// +optional
	Gateway *GatewayReference `json:"gateway,omitempty"`
}

// IngressTLS is how an Ingress ends TLS.
type IngressTLS struct {
	// secretName is the name of the Secret of type kubernetes.io/tls in the
	// namespace of the DemoApp. Absent means the Ingress controller's default
	// certificate.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	// +optional
	SecretName string `json:"secretName,omitempty"`
}

// GatewayReference names a Gateway.
type GatewayReference struct {
	// name is the name of the Gateway.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	// +required
	Name string `json:"name"`

	// namespace is the namespace of the Gateway. Defaults to that of the DemoApp.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// sectionName is the name of a listener of the Gateway. Absent means all.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	// +optional
	SectionName string `json:"sectionName,omitempty"`
}
